import { open, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { describe, expect, test } from 'vitest'
import { mlxLmRuntime } from '../../src/agent-core/runtimes/mlx-lm.ts'
import { launchEnvironment } from '../../src/agent-core/servers/launch.ts'
import type { ServiceView } from '../../src/contract/service.ts'
import { maxHeld, watchedAgent } from '../support/event-loop/health-watch.ts'
import { exists } from '../support/exists.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { writeMlxModel } from '../support/mlx-writer.ts'
import { sampleMlxServerPath } from '../support/sample-servers/sample.ts'
import { useMlxLm } from '../support/skip.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { ServerRoom } from '../unit/servers/server-room.ts'

const apiVersion = 'inference.llmkube.dev/v1alpha1'
const weights = 'model.safetensors'

/** A config.json of which this is written as it is. */
const config = (text: string) => (folder: string) =>
  writeFile(path.join(folder, 'config.json'), `{"model_type": "llama", "hidden_size": 64, "x": 1, ${text}}`)

/** Weights whose header says that it has so many bytes, in a file with a hole of more. */
const headerOf = (bytes: number) => async (folder: string) => {
  await using file = await open(path.join(folder, weights), 'w')
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(bytes))
  await file.write(Buffer.concat([length, Buffer.from('{"a":')]))
  await file.truncate(bytes + 1_000_000)
}

/** Headers of many tensors each, which JSON takes long to read. */
const manyTensors = (files: number, tensors: number) => async (folder: string) => {
  await rm(path.join(folder, weights))
  const tensor = JSON.stringify({ dtype: 'F16', shape: [1], data_offsets: [0, 2] })
  const header = `{${Array.from({ length: tensors }, (_, at) => `"t${at}":${tensor}`).join(',')}}`
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(header.length))
  const content = Buffer.concat([length, Buffer.from(header), Buffer.alloc(2)])
  for (let at = 1; at <= files; at++) await writeFile(path.join(folder, `model-${at}-of-${files}.safetensors`), content)
}

const manyKeys = `"unknown": {${Array.from({ length: 100_000 }, (_, at) => `"${(46_656 + at).toString(36)}":1`).join()}}`

interface Bad {
  readonly what: string
  readonly spoil: (folder: string) => Promise<unknown>
  readonly told: RegExp
}

const bad: readonly Bad[] = [
  {
    what: 'a part that is missing',
    spoil: (folder) => rename(path.join(folder, weights), path.join(folder, 'model-00001-of-00003.safetensors')),
    told: /model-00001-of-00003\.safetensors is one of 3 parts and \/\S+ lacks 2 of them: put them there or give another source\.$/,
  },
  {
    what: 'a config.json of 50 MB',
    spoil: (folder) => truncate(path.join(folder, 'config.json'), 50_000_000),
    told: /config\.json cannot be read, or has more than 1\.0 MB: use another model\.$/,
  },
  ...[
    ['num_hidden_layers', '1e400', 'Infinity'],
    ['num_hidden_layers', '9e99', '9e\\+99'],
    ['num_hidden_layers', '1000000000', '1000000000'],
    ['num_hidden_layers', '-1', '-1'],
    ['num_hidden_layers', '2.5', '2.5'],
    ['n_layer', '5e9', '5000000000'],
    ['hidden_size', '9007199254740991', '9007199254740991'],
    ['rope_theta', '[1, -1e400]', '-Infinity'],
  ].map(([key, text, shown]) => ({
    what: `${text} for ${key}`,
    spoil: config(`"text_config": {"${key}": ${text}}`),
    told: new RegExp(
      `config\\.json says ${shown} for ${key}, which no model has: fetch the model again, or use another`,
    ),
  })),
  {
    what: 'NaN',
    spoil: config('"num_hidden_layers": NaN'),
    told: /config\.json is not a JSON object: fetch the model again\.$/,
  },
  {
    what: 'levels without end',
    spoil: config(`"y": ${'['.repeat(200_000)}${']'.repeat(200_000)}`),
    told: /config\.json is nested deeper than 64 levels: use another model\.$/,
  },
  {
    what: 'a header of 2 GB',
    spoil: headerOf(2_000_000_000),
    told: /has no model of spec\.format mlx \(config\.json and \.safetensors files\): it has no model files; /,
  },
  {
    what: 'a header of 90 MB',
    spoil: headerOf(90_000_000),
    told: /is not a safetensors file: its header has 90\.0 MB, and those of a model at most 67\.1 MB together\. Fetch it again\.$/,
  },
  {
    what: 'headers of 76 MB together',
    spoil: manyTensors(2, 650_000),
    told: /model-2-of-2\.safetensors is not a safetensors file: its header has 38\.\d MB, and .* Fetch it again\.$/,
  },
  {
    what: 'a pipe for weights beside those of the model',
    spoil: (folder) => execa('mkfifo', [path.join(folder, 'x.safetensors')]),
    told: /x\.safetensors is not a safetensors file: it is not a regular file\. Fetch it again\.$/,
  },
  {
    what: 'a pickle for weights',
    spoil: (folder) => writeFile(path.join(folder, weights), '\x80\x02cos\nsystem\n', 'latin1'),
    told: /model\.safetensors is not a model of spec\.format mlx: put a model file there, or correct /,
  },
]

test('a folder that no runtime should be given is refused in a sentence, nothing is started, and the event loop is not held', async () => {
  await using lent = await temporaryFolder()
  await using sim = await KubeSim.start()
  await using watched = await watchedAgent({
    kubeconfig: sim.kubeconfig(),
    args: ['--mlx-server-bin', sampleMlxServerPath, '--allowed-model-roots', lent.dir],
  })
  const { agent } = watched
  const apply = async (name: string, spoil: (folder: string) => Promise<unknown>) => {
    const source = path.join(lent.dir, name)
    await writeMlxModel(source)
    await spoil(source)
    const metadata = { name, annotations: { 'metalbar.dev/runtime': 'mlx-server' } }
    const model = { source, format: 'mlx', hardware: { accelerator: 'metal' } }
    sim.create({ apiVersion, kind: 'Model', metadata: { name }, spec: model })
    sim.create({ apiVersion, kind: 'InferenceService', metadata, spec: { modelRef: name, contextSize: 512 } })
  }
  for (const [at, { spoil }] of bad.entries()) await apply(`bad-${at}`, spoil)
  for (const [at, { what, told }] of bad.entries()) {
    const isTold = ({ name, message }: ServiceView) => name === `bad-${at}` && told.test(message)
    const { state } = await agent.shows(({ services }) => services.find(isTold), `what is wrong with ${what}`)
    expect(state).toMatch(/^(waiting|crash-looping|refused)$/)
  }
  // What is harmless may lie in the folder: it is served.
  await apply('good', async (folder) => {
    await execa('mkfifo', [path.join(folder, 'README.md')])
    await config(`${manyKeys}, "num_hidden_layers": 2`)(folder)
  })
  await agent.service('good', 'ready')
  const started = await readdir(path.join(agent.stateDir, 'runs'))
  expect(started).toEqual(['default.good'])
  expect(await watched.health.longest()).toBeLessThan(maxHeld)
}, 120_000)

describe('the real mlx-lm', () => {
  const executable = useMlxLm()

  test('runs no code and opens no pickle that lies beside the weights, and no file that the index names outside of the folder', async () => {
    await using room = await ServerRoom.create()
    const folder = path.join(room.folder, 'model')
    await writeMlxModel(folder)
    const ran = path.join(room.folder, 'ran')
    const write = (name: string, content: string) => writeFile(path.join(folder, name), content)
    const merge = async (name: string, change: object) => {
      const known = JSON.parse(await readFile(path.join(folder, name), 'utf8')) as object
      await write(name, JSON.stringify({ ...known, ...change }))
    }
    const code = `open(${JSON.stringify(ran)}, "w").write(__name__)\n`
    for (const name of [
      'modeling_own',
      'tokenization_own',
      'model',
      'mlx_lm',
      'transformers',
      'sitecustomize',
      'json',
    ]) {
      await write(`${name}.py`, code)
    }
    const pickle = `cbuiltins\nexec\n(V${code.trim()}\ntR.`
    for (const name of ['pytorch_model.bin', 'tokenizer.pkl', 'model.pt']) await write(name, pickle)
    await merge('config.json', {
      auto_map: { AutoConfig: 'modeling_own.Own', AutoModelForCausalLM: 'modeling_own.Own' },
    })
    await merge('tokenizer_config.json', { auto_map: { AutoTokenizer: ['tokenization_own.Own', null] } })
    // Whoever opens a pipe that nobody writes to waits for ever.
    await execa('mkfifo', [path.join(room.folder, 'outside')])
    const names = ['../outside', path.join(room.folder, 'outside'), 'x\0.safetensors', '../../../../etc/passwd']
    const weightMap = Object.fromEntries(names.map((name, at) => [`model.layers.${at}.weight`, name]))
    await write('model.safetensors.index.json', JSON.stringify({ weight_map: weightMap }))
    expect(await mlxLmRuntime.modelProblem(folder)).toBeUndefined()

    const { advice, environment } = mlxLmRuntime
    const argv = (port: number) => ['--model', folder, '--host', '127.0.0.1', '--port', String(port)]
    room.start({}, { runtime: 'mlx-lm', executable, advice, argv, env: launchEnvironment(environment) })
    await room.reached('ready')
    expect(await exists(ran)).toBe(false)
  })
})
