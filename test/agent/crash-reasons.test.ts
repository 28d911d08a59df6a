import { mkdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { llamaServerRuntime } from '../../src/agent-core/runtimes/llama-server.ts'
import { mlxLmRuntime } from '../../src/agent-core/runtimes/mlx-lm.ts'
import { launchEnvironment } from '../../src/agent-core/servers/launch.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { writeMlxModel } from '../support/mlx-writer.ts'
import { useLlamaServer, useMlxLm } from '../support/skip.ts'
import { ServerRoom } from '../unit/servers/server-room.ts'

describe('the real llama-server ends, and a person reads why and what to do about it', () => {
  const executable = useLlamaServer()

  test.each<[what: string, prepare: (file: string) => Promise<void>, words: readonly string[], told: RegExp]>([
    [
      'a web page for a model',
      (file) => writeFile(file, '<!DOCTYPE html><html><body>Log in</body></html>'),
      [],
      /: gguf_init_from_reader: invalid magic characters.* The model file is a web page: /,
    ],
    [
      'a file that is damaged',
      (file) => writeFile(file, Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(1_000, 0xee)])),
      [],
      /: gguf_init_from_reader: .* The model file is damaged, cut short, or newer than this llama-server: /,
    ],
    [
      'a file cut short',
      async (file) => {
        await writeLlamaGguf(file)
        await writeFile(file, (await readFile(file)).subarray(0, 300_000))
      },
      [],
      /: llama_model_load: error loading model: tensor .* The model file is damaged, cut short, or newer /,
    ],
    [
      'an argument it does not know',
      (file) => writeLlamaGguf(file),
      ['--no-such-argument'],
      /: error: invalid argument: --no-such-argument\. This llama-server does not accept that argument or its value: /,
    ],
  ])('%s', async (_what, prepare, words, told) => {
    await using room = await ServerRoom.create()
    const file = join(room.folder, 'model.gguf')
    await prepare(file)
    const { advice } = llamaServerRuntime
    room.start({}, { executable, advice, argv: (port) => ['--port', String(port), '--model', file, ...words] })
    const { code, outOf, message } = await room.settled()
    expect({ code, outOf }).toEqual({ code: 1, outOf: 'start' })
    expect(message).toMatch(/^llama-server exited with code 1 while starting: /)
    expect(message).toMatch(told)
  })
})

describe('the real mlx-lm cannot serve, and a person reads why and what to do about it', () => {
  const executable = useMlxLm()
  const configWith = async (folder: string, change: object) => {
    const file = join(folder, 'config.json')
    await writeFile(file, JSON.stringify({ ...(JSON.parse(await readFile(file, 'utf8')) as object), ...change }))
  }

  test.each<[what: string, spoil: (folder: string) => Promise<void>, told: RegExp]>([
    [
      'weights cut short',
      (folder) => truncate(join(folder, 'model.safetensors'), 5_000),
      /exceeding the size of the file\..* A weight file of the model is damaged or cut short: fetch the model again\.$/,
    ],
    [
      'a web page for weights',
      (folder) => writeFile(join(folder, 'model.safetensors'), '<!DOCTYPE html><html>Log in</html>'),
      /\[load_safetensors\] .* A weight file of the model is damaged or cut short: /,
    ],
    [
      'weights of another model',
      (folder) => configWith(folder, { num_hidden_layers: 3 }),
      /Missing 9 parameters\. The weights do not fit config\.json of the model, or this mlx-lm is older than the model: /,
    ],
    [
      'no weights',
      (folder) => rm(join(folder, 'model.safetensors')),
      /No safetensors found in .* The folder lacks files of the model: correct spec\.source of the Model, or /,
    ],
    [
      'no tokenizer',
      async (folder) => {
        await rm(join(folder, 'tokenizer.json'))
        await rm(join(folder, 'tokenizer_config.json'))
      },
      /backend tokenizer.* The folder lacks the tokenizer of the model, or one that can be used: /,
    ],
    [
      'an installation of which a part is missing',
      // Python looks beside the working directory's packages first where it is told to.
      async (folder) => {
        await mkdir(join(folder, 'mlx'))
        await writeFile(join(folder, 'mlx', '__init__.py'), '')
      },
      /ModuleNotFoundError: No module named 'mlx\.core'\. A part of mlx-lm, or of what it needs, is missing: install /,
    ],
  ])('%s', async (_what, spoil, told) => {
    await using room = await ServerRoom.create()
    const folder = join(room.folder, 'model')
    await writeMlxModel(folder)
    await spoil(folder)
    const { advice, environment } = mlxLmRuntime
    const argv = (port: number) => ['--model', folder, '--host', '127.0.0.1', '--port', String(port)]
    const env = { ...launchEnvironment(environment), PYTHONPATH: folder }
    room.start({}, { runtime: 'mlx-lm', executable, advice, argv, env })
    expect((await room.settled()).message).toMatch(told)
  })
})
