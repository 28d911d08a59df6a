import type { Command } from 'commander'
import { z } from 'zod'
import type { AgentLink } from '../../contract/client.ts'
import type { ServiceRef } from '../../contract/commands.ts'
import { maxPage } from '../../contract/queries.ts'
import { VerbError } from '../agent-session.ts'
import { serviceNamed } from '../service-name.ts'
import { columns } from '../text.ts'
import { agentVerb, namespaceIn, namespaceOption, run, type VerbContext } from './verb.ts'

const pageOptions = z.object({ limit: z.coerce.number().int().min(1).max(maxPage).default(50) })
const limitOption = ['--limit <count>', `how many, at most ${maxPage}`, '50'] as const

/** What happened. */
export function storyVerbCommands(context: VerbContext): Command[] {
  return [historyVerb(context), eventsVerb(context)]
}

function historyVerb(context: VerbContext): Command {
  return agentVerb('history', 'what happened on this machine, newest first', context)
    .argument('[service]', 'of this service alone')
    .option(...namespaceOption)
    .option(...limitOption)
    .option('--before <id>', 'older than this entry')
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
  return agentVerb('events', "the services' Events in the cluster, newest first", context)
    .argument('[service]', 'of this service alone')
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
    `-n ${namespace} is the namespace of a service: name the service before it. How many there shall be is --limit.`,
  )
}
