import type { Command } from 'commander'
import { z } from 'zod'
import { LinkError } from '../../contract/client.ts'
import { rightsCommands, type RightsPlace } from '../../contract/cluster.ts'
import { sayingLinkErrors, VerbError } from '../agent-session.ts'
import { exitCodes } from '../io.ts'
import { agentVerb, ifAgentRuns, type VerbContext } from './verb.ts'

const given = z.object({
  admin: z.string().optional(),
  further: z.boolean().default(false),
  context: z.string().min(1).optional(),
  namespace: z.string().optional(),
  json: z.boolean().default(false),
})

/** Rights of the running agent's user, whatever it may do already; where none runs, of the user of the kubeconfig's context. */
export function rightsVerb(context: VerbContext): Command {
  return agentVerb('rights', 'print the commands that give the agent its rights in the cluster', context)
    .option('--admin <context>', 'context of who may give them; left out, to be filled in')
    .option('--further', 'those that it can do without, too')
    .option(
      '--context <context>',
      'of the agent; left out, that of the one that runs, else the current one of the kubeconfig',
    )
    .option(
      '-n, --namespace <namespace>',
      'that the agent watches, "" for all; left out, that of the one that runs, else default',
    )
    .action(async (options: unknown) => {
      const { admin, further: isAll, json, ...wanted } = given.parse(options)
      const { io } = context
      const code = await sayingLinkErrors(io, async () => {
        const { needed, further } = rightsCommands({ ...(await placeOf(context, options, wanted)), admin })
        const printed = isAll ? [needed, ...further] : [needed]
        io.stdout.write(json ? `${JSON.stringify(printed)}\n` : `${printed.join('\n\n')}\n`)
        return exitCodes.done
      })
      context.end(code)
    })
}

type Wanted = Pick<z.infer<typeof given>, 'context' | 'namespace'>

/** Throws VerbError where nothing says which context is meant. */
async function placeOf(context: VerbContext, options: unknown, wanted: Wanted): Promise<RightsPlace> {
  const cluster = wanted.context === undefined ? await agentsCluster(context, options) : undefined
  const name = wanted.context ?? cluster?.context ?? (await currentContext(context))
  if (wanted.namespace !== undefined) return { context: name, namespace: wanted.namespace || undefined }
  return { context: name, namespace: cluster === undefined ? 'default' : cluster.namespace }
}

async function agentsCluster(context: VerbContext, options: unknown): Promise<RightsPlace | undefined> {
  const cluster = await ifAgentRuns(context, options, async (agent) => (await agent.snapshot()).cluster)
  if (cluster?.context === '') throw new LinkError('refused', `The agent has no context yet. ${cluster.message}`)
  return cluster
}

async function currentContext({ io: { env } }: VerbContext): Promise<string> {
  const { KubeconfigError, listContexts } = await import('../../agent-core/kube/pinned-context.ts')
  try {
    const { contexts, source } = await listContexts({ env })
    const current = contexts.find(({ isDefault }) => isDefault)
    if (current) return current.name
    throw new VerbError(`${source} has no current context: name one with --context.`)
  } catch (error) {
    if (error instanceof KubeconfigError) throw new VerbError(error.message, { cause: error })
    throw error
  }
}
