import type { AnswerEnd } from '../../contract/ask.ts'
import type { WindowView } from '../../contract/app-bridge.ts'
import {
  formatByteRate,
  formatBytes,
  formatRoundTokenRate,
  formatRoundWatts,
  formatShare,
  formatSpan,
  formatTokenRate,
  formatTokens,
  formatWatts,
} from '../../contract/format.ts'
import type { MemoryStateView } from '../../contract/memory.ts'
import type { PowerFigures } from '../../contract/power.ts'
import type { EventView } from '../../contract/queries.ts'
import {
  type CrashView,
  heldBytesOf,
  type Hold,
  type Progress,
  type RuntimeFigures,
  type ServiceFigures,
  type ServiceMemory,
  type ServiceView,
  type Step,
  type StepName,
  timeLeftOf,
} from '../../contract/service.ts'
import type { DaemonStartSetting } from '../../contract/settings.ts'
import { sharedWords, stateWords, stepWords, type Words } from '../../contract/words.ts'
import type { ModelShare } from '../gauges.ts'
import type { RowSteps } from '../row-steps.ts'
import { type ClientName, clientTexts } from './clients.ts'

/** In place of a value that is not known. */
export const notReported = 'not reported'

export const viewWords = {
  services: 'Services',
  models: 'Models',
  activity: 'Activity',
  settings: 'Settings',
  help: 'Help',
} as const satisfies Words<WindowView>

/** `52.3 tok/s` */
const rate = (tokensPerSecond: number | undefined) =>
  tokensPerSecond === undefined ? notReported : formatTokenRate(tokensPerSecond)

/** `about 12.3 W`: no source tells the power of a process. */
const powerShare = (watts: number | undefined) => (watts === undefined ? notReported : `about ${formatWatts(watts)}`)

export const workWords = {
  title: 'Work',
  tellsNothing: 'This runtime reports no statistics.',
  generation: 'Generation',
  prompts: 'Prompts',
  requests: 'Requests',
  kvUse: 'KV cache in use',
  lastRequest: 'Last request',
  power: 'Power',
  powerShare,
  unknown: notReported,
  rate,
  share: (share: number | undefined) => (share === undefined ? notReported : formatShare(share)),
  requestCounts: ({ requestsRunning, requestsWaiting }: RuntimeFigures) =>
    requestsRunning === undefined
      ? notReported
      : `${requestsRunning} running${requestsWaiting === undefined ? '' : ` · ${requestsWaiting} waiting`}`,
  /** `4.1 GB · 52 tok/s · 1 request · about 31 W`, which has to go into one line; empty where nothing is known. */
  row(figures: ServiceFigures): string {
    const { runtime, powerShareWatts } = figures
    const held = heldBytesOf(figures)
    const parts = [
      ...(held === undefined ? [] : [formatBytes(held)]),
      ...(runtime === undefined ? [] : [runtimeRow(runtime)]),
      ...(powerShareWatts === undefined ? [] : [`about ${formatRoundWatts(powerShareWatts)}`]),
    ]
    return parts.join(' · ')
  },
} as const satisfies Words

function runtimeRow({ state, generatedTokensPerSecond, requestsRunning, slow }: RuntimeFigures): string {
  if (state === 'notReported') return `tokens ${notReported}`
  const running = requestsRunning === undefined ? `requests ${notReported}` : sharedWords.requests(requestsRunning)
  return [
    ...(generatedTokensPerSecond === undefined ? [] : [formatRoundTokenRate(generatedTokensPerSecond)]),
    running,
    ...(slow === undefined ? [] : [sharedWords.slower]),
  ].join(' · ')
}

const who = (address: string): string => (/^(?:127\.|::1$|::ffff:127\.)/.test(address) ? 'this Mac' : address)

export const addressWords = {
  title: 'Addresses',
  pods: 'For pods',
  published: 'As published',
  here: 'On this Mac',
  server: 'The server itself',
  clients: 'Asking now',
  /** `2 requests from this Mac · 1 request from 10.0.0.7, to the published address` */
  from: (clients: ServiceFigures['gateway'] = []): string =>
    clients.length === 0
      ? 'nobody'
      : clients
          .map(({ door, address, requests }) => {
            const where = door === 'published' ? ', to the published address' : ''
            return `${sharedWords.requests(requests)} from ${who(address)}${where}`
          })
          .join(' · '),
  notPublished: 'no Service yet',
  notRunning: 'no server runs',
  copy: (url: string) => `Copy URL ${url}`,
  useFrom: 'Use it from',
  ownKey: 'Where the gateway asks for an API key, put yours in place of “none”.',
  copyFor: (client: ClientName) => (client === 'curl' ? 'Copy curl' : `Copy for ${client}`),
  podsCurl: 'From a pod',
  copyPodsCurl: 'Copy curl for pods',
  curl: (url: string) => clientTexts.curl({ url, model: '' }),
} as const satisfies Words

export const askWords = {
  title: 'Ask',
  question: 'Question',
  example: 'What is a GPU good for?',
  ask: 'Ask',
  stop: 'Stop',
  answer: 'Answer',
  waiting: 'Waiting for the first word',
  stopped: 'Stopped.',
  /** `46 tokens at 12.3 tok/s` */
  rate: ({ tokens, tokensPerSecond, isCut }: AnswerEnd): string =>
    `${formatTokens(tokens)} at ${formatTokenRate(tokensPerSecond)}${isCut ? ': cut there, the model had more to say' : ''}`,
} as const satisfies Words

export const estimateWords = {
  title: 'Memory of this model',
  measured: 'Measured',
  counted: 'Counted',
  whyCounted: 'macOS cannot measure memory-mapped models, so the larger of estimate and measurement counts.',
  estimated: 'Estimated',
  items: {
    weights: 'Weights',
    kv: 'KV cache',
    compute: 'Compute buffers',
    promptCache: 'Prompt cache',
    mmproj: 'Projector',
    draft: 'Draft model',
    adapters: 'Adapters',
    overhead: 'Overhead',
  } satisfies Record<keyof NonNullable<ServiceMemory['items']>, string>,
} as const satisfies Words

/** The outcome of a command. */
export const answerWords = {
  undo: 'Undo',
  stay: 'Stay',
  yaml: 'YAML',
  copyYaml: 'Copy the YAML of it',
} as const satisfies Words

export const holdWords = {
  /** `since`: "since 14:05, for 12 min". */
  elsewhere: (since: string) => `Served by another machine ${since}.`,
  held: (since: string) => `Held on this machine ${since}.`,
  takenBack: 'This machine takes over if that machine releases it or goes away.',
  back: ({ cause, by }: Hold): string =>
    by === 'pressure'
      ? 'It comes back once memory pressure stays normal. Bring back does it now.'
      : cause === 'evicted'
        ? 'Bring back loads it again.'
        : 'Start undoes it.',
} as const satisfies Words

export const serverWords = {
  commandLine: 'Command line',
  copyCommandLine: 'Copy command line',
  unquoted: 'Do not paste this: it is cut short, or lost its quotes.',
} as const satisfies Words

export const nodeWords = {
  title: 'This machine',
  resync: 'Resync',
  proxy: 'Programs on this Mac reach every model at',
} as const satisfies Words

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
    const held =
      bytes === undefined
        ? `memory ${notReported}`
        : `${formatBytes(bytes)} of memory${isMeasured ? '' : ' by its estimate'}`
    return `${name}, ${stateWords[state]}, ${held}${more}`
  },
  pressure: {
    normal: 'pressure normal',
    warning: 'pressure: warning',
    critical: 'pressure: critical',
    unknown: 'pressure not reported',
  } satisfies Record<MemoryStateView['pressure'], string>,
  other: 'other',
  free: 'free for models',
  budget: 'budget',
  gpuLimit: 'GPU limit',
} as const satisfies Words

export const powerWords = {
  title: 'Power',
  off: 'off',
  turnOn: 'Turn on',
  notHere: 'measured on Macs only',
  takesShell: (source: unknown) =>
    source === 'powermetrics'
      ? 'Only root can run powermetrics, so a page in a browser cannot turn it on. Run in a terminal on this Mac:'
      : 'A page in a browser cannot turn it on. Run in a terminal on this Mac:',
  /** Only powermetrics needs leave of sudo. */
  commands: (source: unknown) =>
    `${source === 'powermetrics' ? 'metal-agent power install\n' : ''}metal-agent settings set apple-power-enabled on`,
  combined: ({ combinedWatts }: PowerFigures) => formatWatts(combinedWatts),
  parts: ({ gpuWatts, cpuWatts, aneWatts }: PowerFigures) =>
    `GPU ${formatWatts(gpuWatts)} · CPU ${formatWatts(cpuWatts)} · ANE ${formatWatts(aneWatts)}`,
  trail: (range: { readonly least: number; readonly most: number } | undefined) =>
    range === undefined
      ? 'Power of the last two minutes: not reported'
      : `Power of the last two minutes: from ${formatWatts(range.least)} to ${formatWatts(range.most)}`,
} as const satisfies Words

export const detailWords = {
  namespace: (namespace: string) => `namespace ${namespace}`,
  download: 'Download',
  model: 'Model',
  draft: 'Draft model',
  runtime: 'Runtime',
  server: 'Server',
  restarts: 'Restarts',
  runtimeOf: ({ runtime = 'not chosen yet', runtimeFrom }: ServiceView): string =>
    runtimeFrom === undefined ? runtime : `${runtime}, chosen by ${runtimeFrom}`,
  /** `7.9 GB of 18.6 GB · 61.0 MB/s · 3 min left` */
  progress(progress: Progress): string {
    const { doneBytes, totalBytes = 0, bytesPerSecond } = progress
    const rate = bytesPerSecond > 0 ? formatByteRate(bytesPerSecond) : 'no data is coming in'
    if (totalBytes === 0) return [formatBytes(doneBytes), rate, 'size not reported'].join(' · ')
    const leftMs = timeLeftOf(progress)
    const left = leftMs === undefined ? [] : [`${formatSpan(leftMs)} left`]
    return [`${formatBytes(doneBytes)} of ${formatBytes(totalBytes)}`, rate, ...left].join(' · ')
  },
  requests: (count: number) =>
    count === 1 ? 'Waiting for 1 request to finish.' : `Waiting for ${count} requests to finish.`,
  serverOf: ({ port, pid }: ServiceView): string =>
    [
      ...(port === undefined ? [] : [`port ${port}`]),
      ...(pid === undefined ? ['not running'] : [`process ${pid}`]),
    ].join(' · '),
} as const satisfies Words

const activeStep: Readonly<Record<StepName, string>> = {
  fetched: 'Fetching',
  started: 'Starting',
  healthy: 'Waiting for first answer',
  published: 'Publishing',
  clusterAgrees: 'Waiting for the cluster',
}

const failed: Readonly<Record<StepName, string>> = {
  fetched: 'Not fetched',
  started: 'Not started',
  healthy: 'Not healthy',
  published: 'Not published',
  clusterAgrees: 'The cluster disagrees',
}

/** Where it stands: `Waiting for first answer`, `Not started`, `Next: Published`. */
function standing({ at, status }: RowSteps): string {
  if (status === 'active') return activeStep[at]
  return status === 'failed' ? failed[at] : `Next: ${stepWords[at]}`
}

export const stepsWords = {
  title: 'Steps',
  status: {
    done: 'done',
    active: 'in progress',
    waiting: 'not yet',
    failed: 'failed',
  } satisfies Record<Step['status'], string>,
  at: standing,
  /** As it is heard: `2 of 5 steps done. Waiting for first answer.` */
  row: (steps: RowSteps) => `${steps.done} of ${steps.statuses.length} steps done. ${standing(steps)}.`,
} as const satisfies Words

const times = (count: number) => (count === 1 ? 'once' : `${count} times in a row`)

export const crashWords = {
  title: 'Crash',
  crashed: ({ failures }: CrashView, isOver: boolean) =>
    `${failures === 0 ? 'Crashed earlier' : `Crashed ${times(failures)}`}${isOver ? ', and serves again' : ''}`,
  how: 'How',
  when: 'When',
  memory: 'Memory then',
  lastLines: (count: number) => (count === 1 ? 'Last line before the crash' : `Last ${count} lines before the crash`),
  held: ({ memory }: CrashView) => (memory === undefined ? notReported : formatBytes(memory.residentBytes)),
  nextAttempt: 'Next attempt',
  /** How the server ended, as far as that is known. */
  end({ exitCode, signal }: CrashView): string {
    if (signal !== undefined) return `Ended by ${signal}`
    return exitCode === undefined ? 'Ended' : `Exit code ${exitCode}`
  },
} as const satisfies Words

export const logWords = {
  title: 'Log',
  run: 'Run',
  current: 'This run',
  previous: 'Previous',
  output: 'Output',
  newRun: 'A new run begins.',
  nothing: 'Nothing was printed yet.',
  noPrevious: 'No earlier run is kept.',
  paused: (missed: number) => (missed === 0 ? 'Paused' : `Paused · ${missed} new ${missed === 1 ? 'line' : 'lines'}`),
  follow: 'Follow',
  reveal: 'Show file',
  search: 'Search the log',
  searchHint: 'Search',
  found: (count: number) => (count === 0 ? 'No match' : count === 1 ? '1 line' : `${count} lines`),
} as const satisfies Words

/** What the cluster says of a service: its conditions, and its Events. */
export const newsWords = {
  conditions: 'Conditions in the cluster',
  events: 'Recent Events',
  noConditions: 'The cluster reports no conditions for it.',
  noEvents: 'The cluster has no Events for it.',
  more: (count: number) => `The ${count} newest; kubectl get events lists all.`,
  /** Such as "Crashed, 3 times". */
  event: ({ reason, count }: EventView) => (count === 1 ? reason : `${reason}, ${count} times`),
} as const satisfies Words

export const deleteWords = {
  ask: 'Delete…',
  askOne: (name: string) => `Delete ${name}…`,
  title: 'Delete',
  asking: 'Checking what would be deleted…',
  now: (name: string) => `Delete ${name}`,
  keep: 'Keep',
  again: 'Try again',
  pending: 'Deleting…',
} as const satisfies Words

/** On a button that switches the setting on. */
export const startDaemonWords = {
  ollamaStart: 'Start Ollama',
  omlxStart: 'Start oMLX',
} as const satisfies Words<DaemonStartSetting>
