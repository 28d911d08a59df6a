import { formatBytes, formatSpan } from '../contract/format.ts'
import type { MemoryStateView } from '../contract/memory.ts'
import { formatWatts, type PowerFigures } from '../contract/power.ts'
import type { Progress, ServiceView, StepName } from '../contract/service.ts'
import { stateWords } from '../contract/words.ts'
import type { ModelShare } from './memory-shares.ts'

/** In place of a value that is not known. */
const notReported = 'not reported'

export const stepWords: Readonly<Record<StepName, string>> = {
  fetched: 'Fetched',
  started: 'Started',
  healthy: 'Healthy',
  published: 'Published',
  clusterAgrees: 'Cluster agrees',
}

export interface ProgressWords {
  /** In percent; absent where the source does not say how long the file is. */
  readonly percent?: number
  /** `7.9 GB of 18.6 GB · 61.0 MB/s · 3 min left` */
  readonly text: string
}

export function progressWords({ doneBytes, totalBytes, bytesPerSecond }: Progress): ProgressWords {
  const rate = bytesPerSecond > 0 ? `${formatBytes(bytesPerSecond)}/s` : 'no data is coming in'
  if (totalBytes === undefined || totalBytes === 0) {
    return { text: [formatBytes(doneBytes), rate, 'size not reported'].join(' · ') }
  }
  const missing = totalBytes - doneBytes
  const left = bytesPerSecond > 0 && missing > 0 ? [`${formatSpan((1_000 * missing) / bytesPerSecond)} left`] : []
  return {
    percent: Math.min(100, Math.floor((100 * doneBytes) / totalBytes)),
    text: [`${formatBytes(doneBytes)} of ${formatBytes(totalBytes)}`, rate, ...left].join(' · '),
  }
}

export const requestsWords = (count: number) =>
  count === 1 ? 'Waiting for 1 request to finish.' : `Waiting for ${count} requests to finish.`

export const timesWords = (count: number) => (count === 1 ? 'once' : `${count} times in a row`)

/** How the server ended, as far as that is known. */
export function endWords({ exitCode, signal }: NonNullable<ServiceView['crash']>): string {
  if (signal !== undefined) return `Ended by ${signal}`
  return exitCode === undefined ? 'Ended' : `Exit code ${exitCode}`
}

const size = (bytes: number | undefined) => (bytes === undefined ? notReported : formatBytes(bytes))

export const memoryWords = {
  title: 'Memory',
  modelsInMemory: 'Models in memory',
  size,
  /** `38.2 GB of 96.0 GB for models` */
  models(memory: MemoryStateView | undefined): string {
    if (memory === undefined) return notReported
    const { modelsBytes, budgetBytes } = memory
    const of = budgetBytes === undefined ? '' : ` of ${formatBytes(budgetBytes)}`
    return `${formatBytes(modelsBytes)}${of} for models`
  },
  waiting: (count: number) => (count === 1 ? '1 service waits' : `${count} services wait`),
  segment({ name, state, bytes, isMeasured, promisedBytes }: ModelShare): string {
    const more = promisedBytes > 0 ? `, ${formatBytes(promisedBytes)} more to come` : ''
    return `${name}, ${stateWords[state]}, ${formatBytes(bytes)} of memory${isMeasured ? '' : ' by its estimate'}${more}`
  },
  pressure: {
    normal: 'pressure normal',
    warning: 'pressure: warning',
    critical: 'pressure: critical',
    unknown: 'pressure not reported',
  } satisfies Record<MemoryStateView['pressure'], string>,
  other: 'other',
  free: 'free',
  budget: 'budget',
  gpuLimit: 'GPU limit',
} as const

export const powerWords = {
  title: 'Power',
  off: 'off',
  turnOn: 'Turn on',
  takesShell: 'Only root can measure power, so a page in a browser may not turn it on. In a terminal on this Mac:',
  commands: 'metal-agent power install\nmetal-agent settings set apple-power-enabled on',
  combined: ({ combinedWatts }: PowerFigures) => formatWatts(combinedWatts),
  parts: ({ gpuWatts, cpuWatts, aneWatts }: PowerFigures) =>
    `GPU ${formatWatts(gpuWatts)} · CPU ${formatWatts(cpuWatts)} · ANE ${formatWatts(aneWatts)}`,
  trail: (range: { readonly least: number; readonly most: number } | undefined) =>
    range === undefined
      ? 'Power of the last two minutes: not reported'
      : `Power of the last two minutes: from ${formatWatts(range.least)} to ${formatWatts(range.most)}`,
} as const
