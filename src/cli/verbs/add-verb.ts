import type { Command } from 'commander'
import { z } from 'zod'
import { modelNameOf } from '../../agent-core/models/pulls.ts'
import { inCatalogue } from '../../contract/catalogue.ts'
import { applicationYaml, modelApplication } from '../../contract/model-application.ts'
import { send, VerbError } from '../agent-session.ts'
import { agentVerb, run, type VerbContext } from './verb.ts'

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
    .action((source: string, options: unknown) =>
      run(context, options, async (agent, { json }) => {
        const {
          yaml,
          name,
          namespace,
          quantization,
          sourceSecret,
          context: contextSize,
          slots,
        } = addOptions.parse(options)
        const parsed = modelApplication.safeParse({
          name: name ?? inCatalogue(source)?.name ?? modelNameOf(source),
          namespace: namespace ?? (await agent.snapshot()).cluster.namespace ?? 'default',
          source,
          quantization,
          sourceSecret,
          contextSize,
          parallelSlots: slots,
        })
        if (!parsed.success) {
          const [issue] = parsed.error.issues
          throw new VerbError(`${issue?.path.join('.') ?? ''} ${issue?.message ?? 'makes no sense'}.`.trim())
        }
        if (!yaml) return send(agent, { name: 'applyModel', application: parsed.data }, { io: context.io, json })
        context.io.stdout.write(applicationYaml(parsed.data))
        return 0
      }),
    )
}
