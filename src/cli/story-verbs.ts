import type { Command } from 'commander'
import { z } from 'zod'
import { cleanText } from '../contract/clean-text.ts'
import type { AgentLink } from '../contract/client.ts'
import type { ServiceRef } from '../contract/commands.ts'
import { formatCost, formatCount, formatEnergy, formatPerToken } from '../contract/format.ts'
import { maxLogLines, type LogChunk, type LogCursor } from '../contract/log.ts'
import { coverageLine, type EnergyView, type ServiceEnergy } from '../contract/power.ts'
import { maxPage } from '../contract/queries.ts'
import {
  agentVerb,
  namespaceIn,
  namespaceOption,
  run,
  serviceNamed,
  VerbError,
  type VerbContext,
} from './agent-session.ts'
import { columns, type CliIo } from './io.ts'

const pageOptions = z.object({ limit: z.coerce.number().int().min(1).max(maxPage).default(50) })
const limitOption = ['--limit <count>', `how many, at most ${maxPage}`, '50'] as const

/** What happened. */
export function storyVerbCommands(context: VerbContext): Command[] {
  return [historyVerb(context), eventsVerb(context)]
}

function historyVerb(context: VerbContext): Command {
  return agentVerb('history', 'list what happened on this machine, newest first', context)
    .argument('[service]', 'only of this service')
    .option(...namespaceOption)
    .option(...limitOption)
    .option('--before <id>', 'only entries older than this one')
    .action((name: string | undefined, options: unknown) =>
      run(context, options, async (agent, { json }) => {
        const { before } = z.object({ before: z.coerce.number().int().positive().optional() }).parse(options)
        const answer = await agent.query({
          name: 'history',
          ...(await about(agent, name, options)),
          ...pageOptions.parse(options),
          ...(before !== undefined && { before }),
        })
        const rows = answer.entries.map(({ id, at, kind, service, message }) => [
          String(id),
          at,
          kind,
          service === undefined ? '-' : `${service.namespace}/${service.name}`,
          message,
        ])
        const table = columns(['ID', 'TIME', 'WHAT', 'SERVICE', 'MESSAGE'], rows)
        const oldest = answer.entries.at(-1)?.id
        const more = answer.hasMore && oldest !== undefined ? `\nOlder: metal-agent history --before ${oldest}\n` : ''
        context.io.stdout.write(json ? `${JSON.stringify(answer)}\n` : `${table}${more}`)
        return 0
      }),
    )
}

function eventsVerb(context: VerbContext): Command {
  return agentVerb('events', 'list the Events of the services in the cluster, newest first', context)
    .argument('[service]', 'only of this service')
    .option(...namespaceOption)
    .option(...limitOption)
    .action((name: string | undefined, options: unknown) =>
      run(context, options, async (agent, { json }) => {
        const answer = await agent.query({
          name: 'events',
          ...(await about(agent, name, options)),
          ...pageOptions.parse(options),
        })
        const rows = answer.events.map(({ at, type, reason, count, service, message }) => [
          at,
          type,
          count > 1 ? `${reason} (${count} times)` : reason,
          `${service.namespace}/${service.name}`,
          message,
        ])
        const table = columns(['TIME', 'TYPE', 'REASON', 'SERVICE', 'MESSAGE'], rows)
        context.io.stdout.write(json ? `${JSON.stringify(answer)}\n` : table)
        return 0
      }),
    )
}

async function about(agent: AgentLink, name: string | undefined, options: unknown): Promise<{ service?: ServiceRef }> {
  const namespace = namespaceIn(options)
  if (name !== undefined) return { service: serviceNamed(name, (await agent.snapshot()).services, namespace) }
  if (namespace === undefined) return {}
  throw new VerbError(
    `-n ${namespace} is the namespace of a service: name the service before it. For how many entries to show, use --limit.`,
  )
}

const logOptions = z.object({
  follow: z.boolean().default(false),
  previous: z.boolean().default(false),
  lines: z.coerce.number().int().min(1).max(maxLogLines).default(200),
})

export function logVerb(context: VerbContext): Command {
  return agentVerb('logs', 'print the output of the server of a service', context)
    .argument('<service>', 'name of the service, or namespace/name')
    .option('-f, --follow', 'keep printing new lines')
    .option('--previous', 'print the output of the run before this one')
    .option('-n, --lines <count>', `how many lines, at most ${maxLogLines}`, '200')
    .option('--namespace <namespace>', namespaceOption[1])
    .action((name: string, options: unknown) =>
      run(context, options, async (agent, { json }) => {
        const { follow, previous, lines } = logOptions.parse(options)
        const service = serviceNamed(name, (await agent.snapshot()).services, namespaceIn(options))
        const run = previous ? 'previous' : 'current'
        const chunk = await agent.query({ name: 'log', service, run, lines })
        print(chunk, context.io, json)
        return follow ? await printOn(agent, service, chunk.end, { io: context.io, json }) : 0
      }),
    )
}

/** Ends when the agent does, with what its link says. */
function printOn(
  agent: AgentLink,
  service: ServiceRef,
  from: LogCursor,
  { io, json }: { io: CliIo; json: boolean },
): Promise<never> {
  return new Promise((_, reject) => {
    agent.stream({ name: 'log', service, from }, { next: (chunk) => print(chunk, io, json), end: reject })
  })
}

/** Gaps are reported on standard error, not in the output. */
function print({ lines, gap, ...rest }: LogChunk, io: CliIo, json: boolean): void {
  if (json) {
    io.stdout.write(`${JSON.stringify({ lines, gap, ...rest })}\n`)
    return
  }
  if (gap !== undefined) io.stderr.write(`metal-agent: ${gap}\n`)
  io.stdout.write(lines.map((line) => `${cleanText(line)}\n`).join(''))
}

const given = z.object({ since: z.string().optional(), output: z.string().optional() })

export function energyVerb(context: VerbContext): Command {
  return agentVerb('energy', 'show the energy and tokens of this machine and of each service', context)
    .option('--since <time>', 'such as 24h, 7d or 2026-11-01; default: all that is kept')
    .option('-o, --output <format>', 'json is the same as --json')
    .action(async (options: Record<string, unknown>) => {
      const { since, output } = given.parse(options)
      if (output !== undefined && output !== 'json')
        throw new VerbError(`-o must be json, not ${JSON.stringify(output)}.`)
      const from = since === undefined ? undefined : parseSince(since, new Date()).toISOString()
      await run(context, options, async (agent, { json }) => {
        const view = await agent.query({ name: 'energy', ...(from !== undefined && { since: from }) })
        const isJson = json || output === 'json'
        context.io.stdout.write(isJson ? `${JSON.stringify(view, null, 2)}\n` : renderEnergy(view))
        return 0
      })
    })
}

const estimate =
  'The shares of services are estimates from the tokens of each while power was measured: nothing reports the power of one process.'
const notReported = 'not reported'

/** What was drawn and done in a time, for people: a few lines about the machine, then a table of its services. */
export function renderEnergy(view: EnergyView): string {
  const { joules, ownJoules, cost, currency, services, message } = view
  const money = (value: number | undefined) => (value === undefined ? '' : `, ${formatCost(value, currency)}`)
  const own = ownJoules === undefined ? '' : `, ${formatEnergy(ownJoules)} of it while no service worked`
  const head = [
    [
      'Machine',
      joules === undefined ? 'not measured' : `${formatEnergy(joules)} (CPU, GPU and ANE)${money(cost)}${own}`,
    ],
    ['Time', view.from === undefined ? coverageLine(view) : `since ${localTime(view.from)}. ${coverageLine(view)}`],
    ...(services.length > 0 && joules !== undefined ? [['Note', estimate]] : []),
    ['', message],
  ]
  const lines = head.map(([label = '', text = '']) => `${label.padEnd(9)}${cleanText(text)}\n`).join('')
  return services.length === 0 ? lines : `${lines}\n${table(view)}`
}

function table({ services, joules, currency }: EnergyView): string {
  const hasCost = services.some(({ cost }) => cost !== undefined)
  // llama-server does not count them.
  const hasRequests = services.some(({ requests }) => requests !== undefined)
  const headings = ['NAME', 'NAMESPACE', 'ENERGY', 'J/TOKEN', 'PROMPT', 'GENERATED']
  const rows = services.map((service) => [
    ...cellsOf(service, joules !== undefined),
    ...(hasRequests ? [countOf(service.requests)] : []),
    ...(hasCost ? [service.cost === undefined ? '-' : formatCost(service.cost, currency)] : []),
  ])
  return columns([...headings, ...(hasRequests ? ['REQUESTS'] : []), ...(hasCost ? ['COST'] : [])], rows)
}

function cellsOf(service: ServiceEnergy, isMeasured: boolean): string[] {
  const { namespace, name, joules, joulesPerGeneratedToken: perToken, promptTokens, generatedTokens } = service
  return [
    name === '' ? 'other services' : name,
    namespace === '' ? '-' : namespace,
    isMeasured ? `~${formatEnergy(joules)}` : 'not measured',
    perToken === undefined ? '-' : `~${formatPerToken(perToken)}`,
    countOf(promptTokens),
    countOf(generatedTokens),
  ]
}

const countOf = (count: number | undefined): string => (count === undefined ? notReported : formatCount(count))

/** As people here read it, by the minute. */
function localTime(iso: string): string {
  const at = new Date(iso)
  const two = (value: number) => String(value).padStart(2, '0')
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}`
}

const unitMs: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }
/** Longer ago than anything is kept, and short of where dates end. */
const longestMs = 100 * 366 * 86_400_000

/** The beginning of a time that is given as `24h`, `7d`, `2026-11-01` (from midnight here) or an RFC 3339 time. Throws VerbError. */
export function parseSince(text: string, now: Date): Date {
  const span = /^(\d{1,9})([mhdw])$/.exec(text)
  const ms = Number(span?.[1]) * (unitMs[span?.[2] ?? ''] ?? NaN)
  if (ms <= longestMs) return new Date(now.getTime() - ms)
  const date = dateOf(text)
  if (date === undefined)
    throw new VerbError(
      `--since must be a time such as 24h, 7d, 2026-11-01 or 2026-11-01T08:00:00Z, not ${JSON.stringify(text)}.`,
    )
  if (date > now) throw new VerbError(`--since ${text} lies in the future: nothing has been counted yet.`)
  return date
}

function dateOf(text: string): Date | undefined {
  const isDay = /^\d{4}-\d{2}-\d{2}$/.test(text)
  if (!isDay && !/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/.test(text)) return undefined
  // 30 February would be 2 March.
  const day = new Date(`${text.slice(0, 10)}T00:00:00Z`)
  if (Number.isNaN(day.getTime()) || day.toISOString().slice(0, 10) !== text.slice(0, 10)) return undefined
  const date = new Date(isDay ? `${text}T00:00:00` : text)
  return Number.isNaN(date.getTime()) ? undefined : date
}
