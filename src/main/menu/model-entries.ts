import { actionsFor, stateWord, stepWords } from '../../contract/words.ts'
import { formatBytes, formatRoundTokenRate, formatSpan } from '../../contract/format.ts'
import {
  heldBytesOf,
  stepNames,
  type Progress,
  type ServiceFigures,
  type ServiceState,
  type ServiceView,
} from '../../contract/service.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { isTroubled } from '../state-line.ts'
import { line, lines, nameWithin, separated, submenu, text, type MenuDeed, type MenuEntry } from './entries.ts'

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

/** With more the menu would not fit on the screen of a small Mac. */
const maxModels = 15

/** Each model, those in trouble before the others where there is no room for all. */
export function modelEntries(snapshot: AgentSnapshot): MenuEntry[] {
  const { services } = snapshot
  const entry = (service: ServiceView) => modelEntry(service, snapshot)
  if (services.length <= maxModels) return services.map(entry)
  const first = new Set([...services.filter(isTroubled), ...services].slice(0, maxModels))
  const rest = services.filter((service) => !first.has(service))
  return [
    ...services.filter((service) => first.has(service)).map(entry),
    ...(rest.length === 0 ? [] : [submenu(`${rest.length} more`, rest.map(entry))]),
  ]
}

function modelEntry(service: ServiceView, snapshot: AgentSnapshot): MenuEntry {
  const { uid, message, url, logFile } = service
  return submenu(
    `${shapeOf(service)} ${nameIn(snapshot, service)}   ${figuresOf(service, snapshot)}`,
    separated([
      [text(message)],
      actionsFor(service).map(({ label, command }) => line(label, { kind: 'command', command })),
      [
        ...(url === undefined ? [] : [line('Copy URL', { kind: 'copy', text: url }, { toolTip: nameWithin(url, 90) })]),
        ...(logFile === undefined ? [] : [line('Show log', { kind: 'showLog', file: logFile } satisfies MenuDeed)]),
        ...whyEntry(service),
        line('Show in window', { kind: 'open', at: { service: uid } }),
      ],
    ]),
  )
}

function shapeOf(service: ServiceView): string {
  const { state, reason } = service
  if (reason === 'Paused' || reason === 'Asleep') return shapes.waiting
  return state !== 'foreign' && isTroubled(service) ? '▲' : shapes[state]
}

/** The namespace only where there are several. */
function nameIn({ services }: AgentSnapshot, { namespace, name }: ServiceView): string {
  return nameWithin(services.every((other) => other.namespace === namespace) ? name : `${namespace}/${name}`)
}

/** Memory and speed of what serves, the progress of what is on its way, for all else the word of its state. */
function figuresOf(service: ServiceView, snapshot: AgentSnapshot): string {
  const { uid, state, reason } = service
  const figures = snapshot.figures[uid] ?? {}
  if (reason === 'Paused') return 'Paused'
  if (reason === 'InsufficientMemory') return shortage(service, snapshot)
  if (state === 'ready') return [...memoryOf(figures), ...speedOf(figures)].join(' · ') || stateWord(service)
  if (state === 'fetching') return fetched(service, figures.progress)
  if (state === 'starting') return [stateWord(service), ...memoryOf(figures)].join(' · ')
  return stateWord(service)
}

function memoryOf(figures: ServiceFigures): string[] {
  const held = heldBytesOf(figures)
  return held === undefined ? [] : [formatBytes(held)]
}

function speedOf({ runtime }: ServiceFigures): string[] {
  if (runtime?.state !== 'reported') return []
  const { generatedTokensPerSecond: rate, requestsRunning = 0, slow } = runtime
  return [
    ...(rate === undefined ? [] : [formatRoundTokenRate(rate)]),
    ...(requestsRunning === 0 ? [] : [requestsRunning === 1 ? '1 request' : `${requestsRunning} requests`]),
    ...(slow === undefined ? [] : ['slower than before']),
  ]
}

function shortage({ memory: need }: ServiceView, { memory }: AgentSnapshot): string {
  if (need?.needBytes === undefined) return 'does not fit'
  if (memory?.budgetBytes === undefined) return `needs ${formatBytes(need.needBytes)}`
  const free = Math.max(0, memory.budgetBytes - memory.modelsBytes)
  return `needs ${formatBytes(need.needBytes)}, ${formatBytes(free)} free`
}

function fetched(service: ServiceView, progress: Progress | undefined): string {
  const word = progress?.phase === 'verifying' ? 'Checking' : stateWord(service)
  if (!progress) return word
  const { doneBytes, totalBytes, bytesPerSecond, phase } = progress
  if (totalBytes === undefined || totalBytes === 0) return `${word} · ${formatBytes(doneBytes)}`
  const percent = `${word} ${Math.min(100, Math.floor((100 * doneBytes) / totalBytes))} %`
  if (phase === 'waiting') return `${percent} · waits`
  const missing = totalBytes - doneBytes
  return bytesPerSecond > 0 && missing > 0
    ? `${percent} · ${formatSpan((1_000 * missing) / bytesPerSecond)} left`
    : percent
}

const stepMarks = { done: '✓', active: '◐', waiting: '○', failed: '✗' } as const

const usual: ReadonlySet<ServiceState> = new Set(['ready', 'fetching', 'starting', 'stopping'])

/** What there is to know about one that does not do what it should; nothing for one that does. */
function whyEntry(service: ServiceView): MenuEntry[] {
  const { state, message, crash, memory, hold, steps } = service
  if (usual.has(state) && !isTroubled(service)) return []
  const crashes = crash === undefined || crash.failures === 0 ? [] : [crash.message, crash.firstError ?? '']
  return [
    submenu(
      'Why?',
      separated([
        lines(message),
        hold === undefined || hold.message === message ? [] : lines(hold.message),
        crashes.filter((sentence) => sentence !== '').flatMap((sentence) => lines(sentence, 3)),
        (memory?.waysToFit ?? []).slice(0, 5).flatMap(({ sentence }) => lines(sentence, 2)),
        stepNames.map((name) => stepLine(steps[name], stepWords[name])),
      ]),
    ),
  ]
}

const stepLine = ({ status, message }: ServiceView['steps']['fetched'], word: string): MenuEntry =>
  text(`${stepMarks[status]} ${word}${message === undefined ? '' : `: ${message}`}`)
