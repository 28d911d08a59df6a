import type { Command } from 'commander'
import { z } from 'zod'
import { VerbError } from '../agent-session.ts'
import { renderEnergy } from '../energy-table.ts'
import { parseSince } from '../since.ts'
import { agentVerb, run, type VerbContext } from './verb.ts'

const given = z.object({ since: z.string().optional(), output: z.string().optional() })

export function energyVerb(context: VerbContext): Command {
  return agentVerb('energy', 'energy and tokens of this machine and of each service', context)
    .option('--since <time>', 'such as 24h, 7d or 2026-11-01; left out, all that is kept')
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
