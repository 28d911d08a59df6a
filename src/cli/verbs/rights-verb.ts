import type { Command } from 'commander'
import { z } from 'zod'
import { rightsCommands } from '../../contract/rights.ts'
import { LinkError } from '../../contract/client.ts'
import { agentVerb, run, type VerbContext } from './verb.ts'

const given = z.object({ admin: z.string().optional(), further: z.boolean().default(false) })

/** The running agent knows its context and namespace, whatever it may do there. */
export function rightsVerb(context: VerbContext): Command {
  return agentVerb('rights', 'print the commands that give the agent its rights in the cluster', context)
    .option('--admin <context>', 'context of who may give them; left out, to be filled in')
    .option('--further', 'those that it can do without, too')
    .action((options: unknown) => {
      const { admin, further: isAll } = given.parse(options)
      return run(context, options, async (agent, { json }) => {
        const { cluster } = await agent.snapshot()
        if (cluster.context === '') throw new LinkError('refused', `The agent has no context yet. ${cluster.message}`)
        const { needed, further } = rightsCommands({ ...cluster, admin })
        const wanted = isAll ? [needed, ...further] : [needed]
        context.io.stdout.write(json ? `${JSON.stringify(wanted)}\n` : `${wanted.join('\n\n')}\n`)
        return 0
      })
    })
}
