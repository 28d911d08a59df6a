import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { inferenceServiceSpec } from '../../../src/agent-core/kube/resources.ts'
import { specRefusal } from '../../../src/agent-core/reconcile/runtime-choice.ts'
import { mlxLmRuntime } from '../../../src/agent-core/runtimes/mlx-lm.ts'
import { writeMlxModel } from '../../support/mlx-writer.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const usual = { allowsUnsafe: false, allowedEnv: [], modelRoots: ['/store'] }
const unsafe = { ...usual, allowsUnsafe: true }
const refusal = (policy: typeof usual, ...extraArgs: string[]) =>
  specRefusal(inferenceServiceSpec.parse({ modelRef: 'm', extraArgs }), policy, mlxLmRuntime)

test.each([
  ['Python of the model', ['--trust-remote-code'], true],
  ['a folder of adapters', ['--adapter-path', '/store/a'], false],
  ['memory that was not counted', ['--kv-bits', '2', '--quantized-kv-start', '10000000'], false],
  ['a cache of its own size', ['--prompt-cache-size', '1000'], false],
  ['the beginning of a flag', ['--trust'], false],
  ['a flag that argparse does not know', ['--max_tokens', '4'], false],
])('of a spec mlx-lm does not get %s', (_what, args, loadsCode) => {
  expect(refusal(usual, ...args)).toMatchObject({ reason: 'ExtraArgsRejected', loadsCode })
})

test.each([['--host=0.0.0.0'], ['--hos', '0.0.0.0'], ['--po', '80'], ['--mod', '/x'], ['--prompt-cache-b', '1']])(
  'where it listens and what it loads is the agent’s, also abbreviated and where unsafe arguments are allowed: %s',
  (...args) => {
    expect(refusal(unsafe, ...args)?.message).toMatch(/is refused: /)
  },
)

test('sampling and templates of its own are a spec’s to choose', () => {
  expect(refusal(usual, '--temp', '0.7', '--chat-template-args', '{"enable_thinking":false}')).toBeUndefined()
})

test('a model that brings a program, or a config.json that only Python can read or no model has, is given to no mlx-lm', async () => {
  await using folder = await temporaryFolder()
  await writeMlxModel(folder.dir)
  const config = (text: string) => writeFile(join(folder.dir, 'config.json'), text)
  expect(await mlxLmRuntime.modelProblem(folder.dir)).toBeUndefined()
  await config('{"model_type": "llama", "model\\u005ffile": "tokenizer_x.py"}')
  expect(await mlxLmRuntime.modelProblem(folder.dir)).toContain('names a program of the model’s own'.replace('’', "'"))
  await config('{"model_file": "x.py", "scale": NaN}')
  expect(await mlxLmRuntime.modelProblem(folder.dir)).toContain('is not a JSON object')
  await config('{"num_hidden_layers": 9e99}')
  expect(await mlxLmRuntime.modelProblem(folder.dir)).toContain('says 9e+99 for num_hidden_layers, which no model has')
  await config(`{"pad": "${'x'.repeat(1_100_000)}"}`)
  expect(await mlxLmRuntime.modelProblem(folder.dir)).toContain('cannot be read')
})
