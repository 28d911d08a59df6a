import { styleText } from 'node:util'
import type { Command } from 'commander'
import { z } from 'zod'
import { refKey } from '../agent-core/util/object-key.ts'
import { cleanText } from '../contract/clean-text.ts'
import { LinkError } from '../contract/client.ts'
import type { ServiceRef } from '../contract/commands.ts'
import { formatByteRate, formatBytes, formatDecimal, formatRoundWatts, formatTokenRate } from '../contract/format.ts'
import { localNetworkPane } from '../contract/cluster.ts'
import { powerLine, supplyLine } from '../contract/power.ts'
import {
  percentOf,
  type RuntimeFigures,
  type ServiceFigures,
  type ServiceState,
  type ServiceView,
} from '../contract/service.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'
import { shellWord } from '../contract/shell.ts'
import { summaryWords } from '../contract/words.ts'
import type { AgentClient } from '../serve/client/agent-client.ts'
import { LastingLink } from '../serve/client/lasting-link.ts'
import { agentVerb, namespaceIn, namespaceOption, run, VerbError, type VerbContext } from './agent-session.ts'
import { clearScreen, usesUnicode, type CliIo } from './io.ts'

export function statusVerb(context: VerbContext): Command {
  const { io } = context
  return agentVerb('status', 'show what a running agent does, or why a service is not served here', context)
    .argument('[service]', 'only this service of the cluster, served here or not')
    .option(...namespaceOption)
    .option('-w, --watch', 'print the status of the whole agent again after each change')
    .action((name: string | undefined, options: unknown) =>
      run(context, options, async (agent, { json, connect }) => {
        const { watch } = z.object({ watch: z.boolean().default(false) }).parse(options)
        if (watch) return await showOn(connect, io, json)
        const snapshot = await agent.snapshot()
        if (name === undefined) {
          io.stdout.write(json ? `${JSON.stringify(snapshot, null, 2)}\n` : renderStatus(snapshot, styleOf(io)))
        } else {
          const wanted = { name, namespace: namespaceIn(options) }
          const services = snapshot.services.filter((one) => isNamed(one, wanted))
          const unserved = services.length > 0 ? [] : await unservedHere(agent, wanted)
          const text = [
            ...(services.length > 0 ? table({ ...snapshot, services }, styleOf(io)) : []),
            ...unserved.map((one) => `${refKey(one)} is not served here: ${cleanText(one.message)}`),
          ]
          io.stdout.write(json ? `${JSON.stringify({ services, unserved }, null, 2)}\n` : `${text.join('\n')}\n`)
        }
        return 0
      }),
    )
}

interface Wanted {
  /** May have its namespace before a slash. */
  readonly name: string
  readonly namespace: string | undefined
}

const isNamed = (one: ServiceRef, { name, namespace }: Wanted): boolean =>
  (name === one.name || name === refKey(one)) && (namespace === undefined || namespace === one.namespace)

/** Services of the cluster that this machine does not serve. Throws VerbError where the cluster has none of that name. */
async function unservedHere(agent: AgentClient, wanted: Wanted) {
  const { services } = await agent.query({ name: 'unserved' })
  const meant = services.filter((one) => isNamed(one, wanted))
  if (meant.length > 0) return meant
  throw new VerbError(`The cluster has no InferenceService ${wanted.name} in the namespaces this agent watches.`)
}

/** Goes on through restarts of the agent until it is interrupted; ends at a problem that only a person can mend. */
function showOn(connect: () => Promise<AgentClient>, io: CliIo, json: boolean): Promise<never> {
  const text = (snapshot: AgentSnapshot): string => {
    if (json) return `${JSON.stringify(snapshot)}\n`
    const table = renderStatus(snapshot, styleOf(io))
    return io.stdout.isTTY === true ? `${clearScreen}${table}` : `${table}\n`
  }
  return new Promise((_, reject) => {
    let isAway = false
    new LastingLink({ connect }).watch((mirror) => {
      if (mirror.state === 'live') io.stdout.write(text(mirror.snapshot))
      if (mirror.state === 'away' && !isAway) io.stderr.write(`metal-agent: ${mirror.message} Waiting for it.\n`)
      if (mirror.state === 'refused') reject(new LinkError('refused', mirror.message))
      isAway = mirror.state === 'away'
    })
  })
}

function styleOf(io: CliIo) {
  const { stdout, env } = io
  return {
    columns: stdout.isTTY === true ? stdout.columns : undefined,
    colour: stdout.isTTY === true && !env['NO_COLOR'],
    unicode: usesUnicode(io),
  }
}

export interface TableStyle {
  /** Width of the terminal; absent = nothing is cut. */
  readonly columns: number | undefined
  readonly colour: boolean
  /** Shapes and ellipses beyond ASCII. */
  readonly unicode: boolean
}

/** What an agent does, for people: a few lines about the whole, then a table of its services. */
export function renderStatus(snapshot: AgentSnapshot, style: TableStyle): string {
  const head = headerLines(snapshot).map(([label, text]) =>
    cutEnd(`${label.padEnd(9)}${cleanText(text)}`, style.columns, style),
  )
  const body = snapshot.services.length === 0 ? [noServices(snapshot)] : table(snapshot, style)
  return `${[...head, '', ...body].join('\n')}\n`
}

/** As kubectl writes it, by the agent's own clock: `5s`, `3m`, `4h12m`, `2d`. */
export function formatAge(since: string, now: string): string {
  const seconds = Math.max(0, Math.floor((Date.parse(now) - Date.parse(since)) / 1_000))
  if (seconds < 120) return `${seconds}s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 120) return `${minutes}m`
  const hours = Math.floor(minutes / 60)
  if (hours < 10) return `${hours}h${minutes % 60}m`
  return hours < 48 ? `${hours}h` : `${Math.floor(hours / 24)}d`
}

/** State is shape and word; colour only repeats it. */
const shapes: Readonly<
  Record<ServiceState, { unicode: string; ascii: string; colour: Parameters<typeof styleText>[0] }>
> = {
  ready: { unicode: '●', ascii: '*', colour: 'green' },
  unready: { unicode: '◐', ascii: '~', colour: 'yellow' },
  waiting: { unicode: '○', ascii: '.', colour: 'gray' },
  fetching: { unicode: '↓', ascii: 'v', colour: 'cyan' },
  starting: { unicode: '◔', ascii: '>', colour: 'cyan' },
  'crash-looping': { unicode: '✖', ascii: 'x', colour: 'red' },
  stopping: { unicode: '◌', ascii: '-', colour: 'gray' },
  stopped: { unicode: '■', ascii: '#', colour: 'gray' },
  refused: { unicode: '⊘', ascii: '!', colour: 'red' },
  foreign: { unicode: '◇', ascii: '@', colour: 'gray' },
}

function headerLines(snapshot: AgentSnapshot): [label: string, text: string][] {
  const { cluster, host, version, startedAt, now, notices, memory, power, powerFigures, supply } = snapshot
  const state = `${cluster.state} for ${formatAge(cluster.since, now)}`
  const place = host.address === undefined ? host.message : `published as ${host.address}`
  return [
    [
      'Cluster',
      cluster.context === '' ? state : `${cluster.context} (${cluster.server}), ${scopeOf(snapshot)}: ${state}`,
    ],
    ...(cluster.state === 'live' ? [] : [['', cluster.message] satisfies [string, string]]),
    ...(cluster.cause === 'localNetwork' ? [['', localNetworkHint] satisfies [string, string]] : []),
    ...(cluster.state === 'denied' ? [['', rightsHint] satisfies [string, string]] : []),
    ['Host', `${host.displayName}, ${place}`],
    ...(host.clientProxy === undefined
      ? []
      : [['Local', `${host.clientProxy}/v1 for programs on this machine`] satisfies [string, string]]),
    ['Node', `${host.nodeId}, agent ${version} for ${formatAge(startedAt, now)}`],
    ...(memory ? [['Memory', summaryWords.memory(memory)] satisfies [string, string]] : []),
    ...(power ? [['Power', powerLine(power, powerFigures)] satisfies [string, string]] : []),
    ...(supply ? [['Supply', supplyLine(supply)] satisfies [string, string]] : []),
    ...notices.map((notice): [string, string] => ['Note', notice]),
  ]
}

const localNetworkHint = `To open that pane: open ${shellWord(localNetworkPane)}`

const rightsHint = 'For an administrator, to grant the rights: metal-agent rights'

const scopeOf = ({ cluster: { namespace } }: AgentSnapshot) =>
  namespace === undefined ? 'all namespaces' : `namespace ${namespace}`

/** Only a cluster that answers can say that there is nothing. */
const noServices = (snapshot: AgentSnapshot) =>
  snapshot.cluster.state === 'live'
    ? `No InferenceService for this host in ${scopeOf(snapshot)} yet.`
    : 'No InferenceService is known while the cluster is not watched.'

const gap = '  '
/** Less room than this for the sentence, and it gets a line of its own. */
const leastSentence = 32
const indent = '    '

const headings = [
  'NAME',
  'NAMESPACE',
  'STATE',
  'MODEL',
  'ADDRESS',
  'AGE',
  'MEMORY',
  'TOKENS/S',
  'REQUESTS',
  'POWER',
] as const
type Heading = (typeof headings)[number]
/** A narrower terminal has no room for what each model is expected to hold. */
const leastForMemory = 80
/** In a narrower one what a service does now is in its sentence. */
const leastForWork = 120
const hasRoomForWork = ({ columns = Infinity }: TableStyle): boolean => columns >= leastForWork
const stateColumn = headings.indexOf('STATE')
/** The state as scripts know it. */
const stateOf = ({ state, reason }: ServiceView): string => (state === 'stopped' && reason === 'Idle' ? 'idle' : state)

/** Which columns give way, in this order, and down to which width. The state never does. */
const shrinkable = [
  { column: headings.indexOf('MODEL'), least: 10 },
  { column: headings.indexOf('NAME'), least: 12 },
  { column: headings.indexOf('NAMESPACE'), least: 9 },
  { column: headings.indexOf('ADDRESS'), least: 9 },
] as const

function table(snapshot: AgentSnapshot, style: TableStyle): string[] {
  const shown = shownHeadings(snapshot, style)
  const rows = snapshot.services.map((service) => {
    const figures = snapshot.figures[service.uid] ?? {}
    const cells = cellsOf(service, figures, snapshot.now, style)
    return { service, figures, cells: shown.map((heading) => cells[heading]) }
  })
  const natural = shown.map((heading, column) =>
    Math.max(heading.length, ...rows.map(({ cells }) => (cells[column] ?? '').length)),
  )
  const room = style.columns === undefined ? Infinity : style.columns - lineWidth(natural) - gap.length
  const sameLine = room >= leastSentence
  const widths = sameLine ? natural : shrink(natural, style.columns)
  const fit = (cells: readonly string[]) =>
    cells.map((cell, column) => cutMiddle(cell, widths[column] ?? 0, style).padEnd(widths[column] ?? 0))
  const lines = [[...fit(shown), ...(sameLine ? ['MESSAGE'] : [])].join(gap).trimEnd()]
  for (const { service, figures, cells } of rows) {
    const sentence = sentenceOf(service, figures, style)
    const fitted = fit(cells)
    if (style.colour)
      fitted[stateColumn] = styleText(shapes[service.state].colour, fitted[stateColumn] ?? '', {
        validateStream: false,
      })
    const line = fitted.join(gap)
    if (sameLine) lines.push(`${line}${gap}${cutEnd(sentence, room, style)}`.trimEnd())
    else lines.push(line.trimEnd(), cutEnd(`${indent}${sentence}`, style.columns, style))
  }
  return lines
}

/** Figures that no service has get no column. */
function shownHeadings({ services, figures }: AgentSnapshot, style: TableStyle): readonly Heading[] {
  const { columns = Infinity } = style
  const hasMemory = services.some(({ memory }) => memory?.needBytes !== undefined) && columns >= leastForMemory
  const isReported = services.some(({ uid }) => figures[uid]?.runtime?.state === 'reported')
  const hasRates = isReported && hasRoomForWork(style)
  const hasShares = services.some(({ uid }) => figures[uid]?.powerShareWatts !== undefined) && hasRoomForWork(style)
  const isShown: Partial<Record<Heading, boolean>> = {
    MEMORY: hasMemory,
    'TOKENS/S': hasRates,
    REQUESTS: hasRates,
    POWER: hasShares,
  }
  return headings.filter((heading) => isShown[heading] ?? true)
}

function cellsOf(
  service: ServiceView,
  { runtime, powerShareWatts }: ServiceFigures,
  now: string,
  style: TableStyle,
): Readonly<Record<Heading, string>> {
  const shape = shapes[service.state]
  return {
    NAME: cleanText(service.name),
    NAMESPACE: cleanText(service.namespace),
    STATE: `${style.unicode ? shape.unicode : shape.ascii} ${stateOf(service)}`,
    MODEL: cleanText(service.model),
    ADDRESS: addressOf(service),
    AGE: formatAge(service.since, now),
    MEMORY: memoryOf(service),
    'TOKENS/S': runtime?.state === 'notReported' ? 'not reported' : numberOf(runtime?.generatedTokensPerSecond),
    REQUESTS: requestsOf(runtime) ?? '-',
    POWER: shareOf(powerShareWatts) ?? '-',
  }
}

const numberOf = (figure: number | undefined): string => (figure === undefined ? '-' : formatDecimal(figure))

/** Undefined where its runtime does not tell. */
function requestsOf({ requestsRunning, requestsWaiting = 0 }: Partial<RuntimeFigures> = {}): string | undefined {
  if (requestsRunning === undefined) return undefined
  return requestsWaiting > 0 ? `${requestsRunning} (${requestsWaiting} waiting)` : String(requestsRunning)
}

/** Such as `~12 W`: an estimate. Undefined while it is not known. */
const shareOf = (watts: number | undefined): string | undefined =>
  watts === undefined ? undefined : `~${formatRoundWatts(watts)}`

/** Marks the need of a service that does not run, so that it is not taken for memory it holds. */
function memoryOf({ state, memory }: ServiceView): string {
  if (memory?.needBytes === undefined) return '-'
  const bytes = formatBytes(memory.needBytes)
  return inMemory.has(state) ? bytes : `needs ${bytes}`
}

const inMemory: ReadonlySet<ServiceView['state']> = new Set(['starting', 'ready', 'unready', 'stopping'])

function addressOf({ address, port }: ServiceView): string {
  if (address === undefined && port === undefined) return '-'
  return `${cleanText(address ?? '')}${port === undefined ? '' : `:${port}`}`
}

/** The figures first: a narrow terminal cuts the end. */
function sentenceOf(
  { message }: ServiceView,
  { progress, runtime, powerShareWatts }: ServiceFigures,
  style: TableStyle,
): string {
  const figures = progress ? progressText(progress) : hasRoomForWork(style) ? '' : workText(runtime, powerShareWatts)
  const text = [cleanText(message), cleanText(runtime?.slow ?? '')].filter((part) => part !== '').join(' ')
  return figures === '' ? text : `${figures}: ${text}`
}

/** Empty where nothing is worked on. */
function workText(runtime: RuntimeFigures | undefined, watts: number | undefined): string {
  const rate = runtime?.generatedTokensPerSecond
  const requests = runtime?.requestsRunning === 0 ? undefined : requestsOf(runtime)
  const share = watts === 0 ? undefined : shareOf(watts)
  return [
    ...(rate === undefined ? [] : [formatTokenRate(rate)]),
    ...(requests === undefined ? [] : [`requests ${requests}`]),
    ...(share === undefined ? [] : [share]),
  ].join(', ')
}

function progressText(progress: NonNullable<ServiceFigures['progress']>): string {
  const { doneBytes, totalBytes = 0, bytesPerSecond } = progress
  const percent = percentOf(progress)
  const done = percent === undefined ? formatBytes(doneBytes) : `${percent} % of ${formatBytes(totalBytes)}`
  return `${done}, ${formatByteRate(bytesPerSecond)}`
}

const lineWidth = (widths: readonly number[]) =>
  widths.reduce((sum, width) => sum + width, 0) + gap.length * (widths.length - 1)

function shrink(natural: readonly number[], columns: number | undefined): number[] {
  const widths = [...natural]
  for (const { column, least } of shrinkable) {
    const width = widths[column] ?? 0
    const excess = columns === undefined ? 0 : lineWidth(widths) - columns
    if (excess > 0) widths[column] = Math.max(Math.min(width, least), width - excess)
  }
  return widths
}

function cutEnd(text: string, width: number | undefined, { unicode }: TableStyle): string {
  if (width === undefined || text.length <= width) return text
  const mark = unicode ? '…' : '..'
  return `${text.slice(0, Math.max(0, width - mark.length)).trimEnd()}${mark}`
}

/** Names often differ only at their end. */
function cutMiddle(text: string, width: number, { unicode }: TableStyle): string {
  if (text.length <= width) return text
  const mark = unicode ? '…' : '..'
  const kept = Math.max(0, width - mark.length)
  const front = Math.ceil(kept / 2)
  return `${text.slice(0, front)}${mark}${text.slice(text.length - (kept - front))}`
}
