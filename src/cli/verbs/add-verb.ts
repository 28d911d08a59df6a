import type { Command } from 'commander'
import { z } from 'zod'
import { modelNameOf } from '../../agent-core/models/pulls.ts'
import {
  applicationYaml,
  inCatalogue,
  modelApplication,
  type ModelApplication,
} from '../../contract/model-application.ts'
import type { AgentClient } from '../../serve/client/agent-client.ts'
import { sayingLinkErrors, send, VerbError } from '../agent-session.ts'
import { exitCodes } from '../io.ts'
import { agentVerb, ifAgentRuns, run, type VerbContext } from './verb.ts'

const count = z.coerce.number().optional()

const addOptions = z.object({
  name: z.string().optional(),
  namespace: z.string().optional(),
  quantization: z.string().optional(),
  sourceSecret: z.string().optional(),
  context: count,
  slots: count,
  yaml: z.boolean().default(false),
})

/** Makes a Model and an InferenceService in the cluster, or prints them. */
export function addVerb(context: VerbContext): Command {
  return agentVerb(
    'add',
    'add a model to the cluster, to be served on this machine; metal-agent fit says before whether it fits',
    context,
  )
    .argument(
      '<source>',
      'a source such as hf://owner/name or https://…/model.gguf, or a well-known name such as llama-3.1-8b',
    )
    .option('--name <name>', 'of the service and its Model; made of the source where it is left out')
    .option('-n, --namespace <namespace>', 'left out, the one that the agent watches, or default')
    .option('--quantization <name>', 'which of the files of a repository, as Q4_K_M')
    .option('--source-secret <name>', 'Secret of the namespace whose Hugging Face token opens a private source')
    .option('--context <tokens>', 'context size; left out, that of the agent')
    .option('--slots <number>', 'requests at once')
    .option('--yaml', 'only print what would be applied')
    .action((source: string, options: unknown) => add(context, source, options))
}

/** With `--yaml` no agent has to run: one that does says which namespace is meant where none is given. */
async function add(context: VerbContext, source: string, options: unknown): Promise<void> {
  const given = addOptions.parse(options)
  const namespaceOf = async (agent: AgentClient) => (await agent.snapshot()).cluster.namespace
  if (given.yaml) {
    const code = await sayingLinkErrors(context.io, async () => {
      const namespace = given.namespace ?? (await ifAgentRuns(context, options, namespaceOf))
      context.io.stdout.write(applicationYaml(applicationOf(source, given, namespace)))
      return exitCodes.done
    })
    context.end(code)
    return
  }
  await run(context, options, async (agent, { json }) => {
    const application = applicationOf(source, given, given.namespace ?? (await namespaceOf(agent)))
    return send(agent, { name: 'applyModel', application }, { io: context.io, json })
  })
}

/** Throws VerbError. */
function applicationOf(
  source: string,
  { name, quantization, sourceSecret, context: contextSize, slots }: z.infer<typeof addOptions>,
  namespace = 'default',
): ModelApplication {
  const parsed = modelApplication.safeParse({
    name: name ?? inCatalogue(source)?.name ?? modelNameOf(source),
    ...{ namespace, source, quantization, sourceSecret, contextSize, parallelSlots: slots },
  })
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new VerbError(`${issue?.path.join('.') ?? ''} ${issue?.message ?? 'makes no sense'}.`.trim())
}
