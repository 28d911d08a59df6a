import type { Command } from 'commander'
import { z } from 'zod'
import { cleanText } from '../contract/clean-text.ts'
import type { AgentLink } from '../contract/client.ts'
import type { ServiceRef } from '../contract/commands.ts'
import { maxLogLines, type LogChunk, type LogCursor } from '../contract/log.ts'
import { maxPage } from '../contract/queries.ts'
import {
  agentVerb,
  countOption,
  namespaceIn,
  namespaceOption,
  run,
  serviceNamed,
  VerbError,
  type VerbContext,
} from './agent-session.ts'
import { columns, type CliIo } from './io.ts'

const pageOptions = z.object({ limit: z.number() })

/** What happened here. */
export function historyVerb(context: VerbContext): Command {
  return agentVerb('history', 'list what happened on this machine, newest first', context)
    .argument('[service]', 'only of this service')
    .option(...namespaceOption)
    .addOption(countOption('--limit <count>', `how many, at most ${maxPage}`, maxPage).default(50))
    .action((name: string | undefined, options: unknown) =>
      run(context, options, async (agent, { json }) => {
        const answer = await agent.query({
          name: 'history',
          ...(await about(agent, name, options)),
          ...pageOptions.parse(options),
        })
        const rows = answer.entries.map(({ id, at, kind, service, message }) => [
          String(id),
          at,
          kind,
          service === undefined ? '-' : `${service.namespace}/${service.name}`,
          message,
        ])
        const table = columns(['ID', 'TIME', 'WHAT', 'SERVICE', 'MESSAGE'], rows)
        const more = answer.hasMore ? '\nThere are older ones: give a higher --limit.\n' : ''
        context.io.stdout.write(json ? `${JSON.stringify(answer)}\n` : `${table}${more}`)
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
  lines: z.number(),
})

export function logVerb(context: VerbContext): Command {
  return agentVerb('logs', 'print the output of the server of a service', context)
    .argument('<service>', 'name of the service, or namespace/name')
    .option('-f, --follow', 'keep printing new lines')
    .option('--previous', 'print the output of the run before this one')
    .addOption(countOption('-n, --lines <count>', `how many lines, at most ${maxLogLines}`, maxLogLines).default(200))
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
