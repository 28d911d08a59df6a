import { actionsFor } from '../contract/actions.ts'
import type { CommandInput } from '../contract/commands.ts'
import type { ServiceState, ServiceView } from '../contract/service.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'
import { stateWord } from '../contract/words.ts'
import type { AgentView } from './agent-view.ts'
import { clusterLine, stateLine } from './state-line.ts'

/** What choosing an entry does. */
export type MenuDeed =
  | { readonly kind: 'command'; readonly command: CommandInput }
  | { readonly kind: 'measurePower' }
  | { readonly kind: 'open' }
  | { readonly kind: 'quit' }

/** A line of the menu as data; one without a deed or entries below it can only be read. */
export type MenuEntry =
  | { readonly kind: 'separator' }
  | {
      readonly kind: 'line'
      readonly label: string
      readonly deed?: MenuDeed
      readonly accelerator?: string
      readonly entries?: readonly MenuEntry[]
    }

/** The menu of the icon: enough to run the node where no window can be drawn. */
export function menuOf(view: AgentView): MenuEntry[] {
  const { snapshot, isHere, isQuitting } = view
  return [
    text(stateLine(view)),
    ...(snapshot ? [text(clusterLine(snapshot)), ...snapshot.notices.map(text)] : []),
    ...answerEntries(view),
    { kind: 'separator' },
    ...(snapshot && snapshot.services.length > 0
      ? [...snapshot.services.map((service) => serviceEntry(service, snapshot)), { kind: 'separator' } as const]
      : []),
    ...(offersPower(view) ? [line('Measure power…', { kind: 'measurePower' })] : []),
    line('Open Metalbar', { kind: 'open' }, 'CommandOrControl+O'),
    ...(isQuitting
      ? []
      : [line(isHere ? 'Quit: drain and stop' : 'Quit: the agent runs on', { kind: 'quit' }, 'CommandOrControl+Q')]),
  ]
}

/** Where power is off on a Mac, or powermetrics does not measure it, for which a rule of sudo may be missing. */
function offersPower({ snapshot, isMac }: AgentView): boolean {
  if (!snapshot) return false
  const { power } = snapshot
  return power ? power.state === 'failed' && power.source === 'powermetrics' : isMac
}

/** A shape and a word, never a colour. */
const shapes: Readonly<Record<ServiceState, string>> = {
  ready: '●',
  unready: '▲',
  waiting: '○',
  fetching: '◐',
  starting: '◐',
  'crash-looping': '▲',
  stopping: '◌',
  stopped: '○',
  refused: '▲',
  foreign: '◇',
}

/** Longer sentences would make the menu as wide as the screen. */
const maxSentence = 90

function serviceEntry(service: ServiceView, snapshot: AgentSnapshot): MenuEntry {
  const actions = actionsFor(service)
  const progress = snapshot.figures[service.uid]?.progress
  const percent =
    progress?.totalBytes === undefined || progress.totalBytes === 0
      ? ''
      : ` ${Math.floor((100 * progress.doneBytes) / progress.totalBytes)} %`
  return {
    kind: 'line',
    label: `${shapes[service.state]} ${nameIn(snapshot, service)}   ${stateWord(service)}${percent}`,
    entries: [
      text(service.message),
      ...(actions.length === 0 ? [] : [{ kind: 'separator' } as const]),
      ...actions.map(({ label, command }) => line(label, { kind: 'command', command })),
    ],
  }
}

/** The namespace only where there are several. */
function nameIn({ services }: AgentSnapshot, { namespace, name }: ServiceView): string {
  return services.every((other) => other.namespace === namespace) ? name : `${namespace}/${name}`
}

function answerEntries({ answer }: AgentView): MenuEntry[] {
  if (!answer) return []
  const instead = answer.outcome === 'refused' ? answer.instead : undefined
  return [
    { kind: 'separator' },
    text(answer.message),
    ...(instead ? [line(instead.label, { kind: 'command', command: instead.command })] : []),
  ]
}

const text = (sentence: string): MenuEntry => ({
  kind: 'line',
  label: sentence.length <= maxSentence ? sentence : `${sentence.slice(0, maxSentence - 1).trimEnd()}…`,
})

const line = (label: string, deed: MenuDeed, accelerator?: string): MenuEntry => ({
  kind: 'line',
  label,
  deed,
  ...(accelerator !== undefined && { accelerator }),
})
