import path from 'node:path'
import { Command } from 'commander'
import { z } from 'zod'
import { VerbError } from '../agent-session.ts'
import type { VerbContext } from './verb.ts'

const count = (option: string) =>
  z
    .string()
    .regex(/^\d{1,9}$/, `${option} must be a whole number`)
    .transform(Number)
    .optional()

const fitOptions = z
  .object({
    json: z.boolean().default(false),
    context: count('--context'),
    slots: count('--slots'),
    kv: z
      .string()
      .regex(/^[a-z0-9_]+(,[a-z0-9_]+)?$/i, '--kv must be a cache type such as q8_0, or two of them as q8_0,q4_0')
      .optional(),
    sourceSecret: z.string().optional(),
    namespace: z.string().optional(),
    modelStore: z.string().optional(),
    stateDir: z.string(),
  })
  .refine(({ namespace, sourceSecret }) => namespace === undefined || sourceSecret !== undefined, {
    error: '--namespace is that of the Secret, so it needs --source-secret',
  })
  .refine(({ modelStore, sourceSecret }) => modelStore === undefined || sourceSecret === undefined, {
    error: '--source-secret asks the agent, which has a model store of its own: leave out --model-store',
  })
  .refine(({ kv, sourceSecret }) => sourceSecret === undefined || kv?.includes(',') !== true, {
    error: '--source-secret asks the agent, which takes one cache type for keys and values: --kv q8_0',
  })

export function fitVerb({ io, end, defaultStateDir }: VerbContext): Command {
  return new Command('fit')
    .description(
      'say whether a model fits on this machine, and what would make it fit: by the settings of the agent that runs and beside what it runs, or by what this machine has',
    )
    .argument('<model>', 'a GGUF file, an MLX folder, a name in the model store, or a source such as hf://owner/name')
    .option('--context <tokens>', 'context size; default 2048, as the agent has it')
    .option('--slots <number>', 'requests at once; left to llama-server where it is left out')
    .option('--kv <type>', 'type of the KV cache, or of keys and values as K,V; default f16')
    .option(
      '--source-secret <name>',
      'Secret whose Hugging Face token opens a private source; asks the agent that runs',
    )
    .option('-n, --namespace <namespace>', 'of that Secret; left out, the one that the agent watches, or default')
    .option('--model-store <folder>', 'folder of downloaded models; left out, that of the agent or else the usual one')
    .option('--state-dir <folder>', 'state folder of the agent', defaultStateDir)
    .option('--json', 'print the answer as JSON, in bytes')
    .action(async (given: string, options: unknown) => {
      const parsed = fitOptions.safeParse(options)
      if (!parsed.success) throw new VerbError(`${parsed.error.issues[0]?.message ?? 'The options make no sense'}.`)
      const { fit } = await import('../fit/fit.ts')
      const { modelStore, stateDir, ...rest } = parsed.data
      const folders = {
        ...(modelStore !== undefined && { modelStore: path.resolve(io.cwd, modelStore) }),
        stateDir: path.resolve(io.cwd, stateDir),
      }
      end(await fit(given, { ...rest, ...folders }, io))
    })
}
