import type { EvictionPreview, PreviewedService } from '../../contract/memory.ts'
import { formatBytes, formatMemory, formatShare } from '../../contract/format.ts'

/** Such as "a, b and c". */
const listed = (names: readonly string[]) =>
  names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1) ?? ''}`

/** The namespace only where it tells two of them apart. */
function namesIn(view: EvictionPreview) {
  const all = [...view.starts, ...view.evicted, ...view.unfit, ...view.waits]
  return ({ namespace, name, bytes }: PreviewedService) => {
    const isShared = all.some((one) => one.name === name && one.namespace !== namespace)
    return `${isShared ? `${namespace}/` : ''}${name} (${formatBytes(bytes)})`
  }
}

const verb = (services: readonly unknown[], one: string, many: string) => (services.length === 1 ? one : many)

/** One sentence for each thing that would happen. */
function consequences(view: EvictionPreview): string[] {
  const nameOf = namesIn(view)
  const winnerOf = (key: string) => {
    const winner = view.starts.find(({ namespace, name }) => `${namespace}/${name}` === key)
    return winner === undefined ? key : nameOf(winner)
  }
  const names = (services: readonly PreviewedService[]) => listed(services.map(nameOf))
  const split = (services: readonly PreviewedService[]) =>
    [true, false].map((isTooLarge) => services.filter((one) => (one.isTooLarge ?? false) === isTooLarge))
  const [unfitAlone = [], unfit = []] = split(view.unfit)
  const [neverFit = [], waits = []] = split(view.waits)
  const evictions = [...Map.groupBy(view.evicted, ({ winner = '' }) => winner)].map(
    ([winner, some]) =>
      `${names(some)} ${verb(some, 'leaves', 'leave')} memory, so that ${winnerOf(winner)} can start.`,
  )
  // Those that others give way to are named with them.
  const starts = view.starts.filter(
    ({ namespace, name }) => !view.evicted.some(({ winner }) => winner === `${namespace}/${name}`),
  )
  const sentences = [
    [starts, `${names(starts)} ${verb(starts, 'starts', 'start')}.`],
    [unfit, `${names(unfit)} ${verb(unfit, 'keeps', 'keep')} running, but would not start again beside the others.`],
    [
      unfitAlone,
      `${names(unfitAlone)} ${verb(unfitAlone, 'keeps', 'keep')} running, but would not start again at all.`,
    ],
    [waits, `${names(waits)} ${verb(waits, 'waits', 'wait')} for memory.`],
    [neverFit, `${names(neverFit)} ${verb(neverFit, 'does', 'do')} not fit, even alone.`],
  ] as const
  return [...evictions, ...sentences.flatMap(([services, sentence]) => (services.length > 0 ? [sentence] : []))]
}

export const budgetWords = {
  slider: 'Memory for models',
  share: (fraction: number, totalBytes: number) => `${formatShare(fraction)} · ${formatMemory(fraction * totalBytes)}`,
  ram: (bytes: number) => `memory ${formatMemory(bytes)}`,
  gpuLimit: (bytes: number) => `GPU limit ${formatMemory(bytes)}`,
  bytesCount: 'memory-budget is set, which counts instead of a fraction.',
  preview: 'Once applied',
  looking: 'Looking at what that would do…',
  /** The first says what the budget would be. */
  lines(view: EvictionPreview): readonly string[] {
    const what = consequences(view)
    const nothing = `Nothing changes for a service now; models hold ${formatBytes(view.modelsBytes)}.`
    return [`Budget ${view.budgetHow}.`, ...(what.length > 0 ? what : [nothing])]
  },
} as const
