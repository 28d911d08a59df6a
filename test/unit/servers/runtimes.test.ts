import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { cp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { InstalledRuntimes } from '../../../src/agent-core/runtimes/installed.ts'
import { runtimes } from '../../../src/agent-core/runtimes/runtimes.ts'
import { adoptServers } from '../../../src/agent-core/servers/adoption.ts'
import { isOfDaemon, launchEnvironment, type ServerLaunch } from '../../../src/agent-core/servers/launch.ts'
import { Ledger } from '../../../src/agent-core/servers/ledger.ts'
import { livenessTimings } from '../../../src/agent-core/servers/liveness.ts'
import { Ports, portsOf } from '../../../src/agent-core/servers/ports.ts'
import { serverProtocols, type ProcessRuntimeName } from '../../../src/agent-core/servers/probe.ts'
import { residentBytesOf } from '../../../src/agent-core/servers/process-group.ts'
import { Servers } from '../../../src/agent-core/servers/servers.ts'
import { runtimeState } from '../../../src/contract/queries.ts'
import { eventually } from '../../support/eventually.ts'
import { freePort } from '../../support/free-port.ts'
import { writeLlamaGguf } from '../../support/gguf-writer.ts'
import { writeMlxModel } from '../../support/mlx-writer.ts'
import {
  sampleMlxServerPath,
  sampleTensorfoldPath,
  sampleVllmSwiftPath,
  type SampleScript,
} from '../../support/sample-servers/sample.ts'
import { silentLog } from '../../support/silent-log.ts'
import { useLlamaServer, useMlxLm } from '../../support/skip.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { dialects, prepareLaunch, sampleVariable } from './prepared-launch.ts'
import { livingPids, platform, ServerRoom } from './server-room.ts'

const models = await temporaryFolder()
const inModels = (name: string) => join(models.dir, name)

/** The same folder with another kind of model in its config.json. */
async function writeKind(name: string, type: string): Promise<void> {
  await cp(inModels('mlx'), inModels(name), { recursive: true })
  const file = join(inModels(name), 'config.json')
  await writeFile(file, (await readFile(file, 'utf8')).replace('"llama"', JSON.stringify(type)))
}

beforeAll(async () => {
  await writeLlamaGguf(inModels('llama.gguf'))
  await writeLlamaGguf(inModels('banana.gguf'), { metadata: { 'general.architecture': 'banana' } })
  await writeMlxModel(inModels('mlx'), { contextTokens: 4096 })
  await writeKind('thinking', 'qwen3')
  await writeKind('banana', 'banana')
  await writeKind('thinking-banana', 'qwen3')
  await rm(join(inModels('thinking-banana'), 'model.safetensors'))
})
afterAll(() => models[Symbol.asyncDispose]())

interface Kind {
  readonly name: string
  readonly runtime: ProcessRuntimeName
  /** The real program; where it is not here the tests are skipped. */
  readonly program: () => string
  readonly model: string
  readonly tells: 'counted' | 'untold'
  /** Enough for an answer to take a second. */
  readonly tokens: number
  /** Of its processes, from the first on, some whose death has to end the whole; that of the first is part of another test too. */
  readonly victims: readonly number[]
  readonly processes: number
  /** A model that it cannot load, and what a person is told. */
  readonly wrong: { readonly model: string; readonly loadMs?: number; readonly stallMs?: number; readonly told: RegExp }
  /** What an older build answers that must not be started, and what a person is told. */
  readonly old?: { readonly says: string; readonly told: RegExp }
}

const kinds: readonly Kind[] = [
  {
    ...{
      name: 'llama-server',
      runtime: 'llama-server',
      program: useLlamaServer,
      model: 'llama.gguf',
      tells: 'counted',
    },
    ...{ tokens: 1_000, processes: 1, victims: [0] },
    wrong: {
      model: 'banana.gguf',
      told: /'banana'\. This llama-server does not know this kind of model: upgrade llama/,
    },
  },
  {
    ...{ name: 'mlx-lm', runtime: 'mlx-lm', program: useMlxLm, model: 'mlx', tells: 'untold' },
    ...{ tokens: 200, processes: 1, victims: [] },
    wrong: { model: 'banana', told: /banana.*\. This mlx-lm does not know this kind of model: upgrade mlx-lm, or/ },
  },
  {
    ...{ name: 'mlx-server, a sample', runtime: 'mlx-server', program: () => sampleMlxServerPath, model: 'mlx' },
    ...{ tells: 'untold', tokens: 100, processes: 1, victims: [] },
    wrong: {
      model: 'banana',
      told: /type: banana\. This mlx-server does not know this kind of model: upgrade mlx-server/,
    },
  },
  {
    ...{ name: 'tensorfold, a sample', runtime: 'tensorfold', program: () => sampleTensorfoldPath, model: 'mlx' },
    ...{ tells: 'counted', tokens: 100, processes: 1, victims: [] },
    wrong: { model: 'banana', told: /type: banana\. This TensorFold does not know this kind of model: upgrade Tensor/ },
  },
  {
    ...{ name: 'vllm-swift, a sample', runtime: 'vllm-swift', program: () => sampleVllmSwiftPath, model: 'mlx' },
    ...{ tells: 'counted', tokens: 100, processes: 3, victims: [0, 1, 2] },
    wrong: { model: 'banana', told: /type: banana\. This vllm-swift does not know this kind of model: upgrade vllm/ },
    old: {
      says: 'vllm-swift 0.3.0',
      told: /is version 0\.3\.0, which may serve a different model .* 0\.3\.2 is the oldest/,
    },
  },
  {
    ...{ name: 'vllm-swift behind its proxy, a sample', runtime: 'vllm-swift', program: () => sampleVllmSwiftPath },
    ...{ model: 'thinking', tells: 'counted', tokens: 100, processes: 3, victims: [1] },
    wrong: {
      // A real one takes longer to load vLLM than its processes are looked at.
      ...{ model: 'thinking-banana', loadMs: 800, stallMs: 2_000 },
      told: /which had ended, .*No safetensors found in .*\. The folder lacks files of the model: correct spec\.source/,
    },
    old: { says: 'vllm-swift 0.2.1', told: /0\.3\.2 is the oldest/ },
  },
]

const kindOf = (wanted: ProcessRuntimeName): Kind => kinds.find(({ runtime }) => runtime === wanted) as Kind

/** Tokens slow enough for a look at them; the real programs ignore it. */
const script = { tokenMs: 5 } satisfies SampleScript

interface Changes {
  readonly loadMs?: number | undefined
  readonly stallMs?: number | undefined
  readonly [field: string]: unknown
}

async function prepare({ runtime }: Kind, executable: string, model: string, changes: Changes = {}) {
  const { loadMs, stallMs, ...spec } = changes
  const env = [{ name: sampleVariable, value: JSON.stringify({ ...script, loadMs }) }]
  const { problem, launch } = await prepareLaunch(runtime, { executable, model, stallMs, spec: { env, ...spec } })
  const processLaunch = async (): Promise<ServerLaunch> => {
    const made = await launch()
    if (isOfDaemon(made)) throw new TypeError(`${runtime} is no process`)
    return made
  }
  return { problem, launch: processLaunch }
}

async function launchOf(kind: Kind, executable: string, model = kind.model, changes?: Changes): Promise<ServerLaunch> {
  const { problem, launch } = await prepare(kind, executable, inModels(model), changes)
  expect(problem).toBeUndefined()
  return launch()
}

const complete = (port: number, body: object) =>
  fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    ...{ method: 'POST', headers: { 'content-type': 'application/json', connection: 'close' } },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], ignore_eos: true, ...body }),
  })

/** As the gateway says it to each. */
const modelOf = ({ runtime }: Kind): string => (runtime === 'mlx-lm' ? 'default_model' : 'apples')

async function expectNothingLeft(pid: number, port: number, { runtime }: Kind): Promise<void> {
  const ports = portsOf(port, serverProtocols[runtime].furtherPorts)
  const free = await Promise.all(ports.map((one) => new Ports().isFree(one)))
  expect([await livingPids(pid), free]).toEqual([[], ports.map(() => true)])
}

/** Unhealthy and ended soon, so that nobody waits for it. */
const impatient = { ...livenessTimings, everyMs: 300, followUpMs: 100, misses: 2, hungMisses: 3 }

describe.each(kinds)('$name', (kind) => {
  const executable = kind.program()

  test('starts and is ready once it answers, tells that it is busy, finishes its requests before a stop and leaves nothing', async () => {
    await using room = await ServerRoom.create()
    const { servers } = room
    servers.start('a/b', await launchOf(kind, executable))
    const { pid, port } = await room.reached('ready')
    const model = modelOf(kind)
    const whole = (await (await complete(port, { model, max_tokens: 2 })).json()) as { usage: { completion_tokens: 2 } }
    expect(whole.usage.completion_tokens).toBe(2)
    const listed = await (
      await fetch(`http://127.0.0.1:${port}/v1/models`, { headers: { connection: 'close' } })
    ).text()
    // Of a client's business is the model, not where this person keeps it; that of mlx-lm is kept from clients by the gateway.
    if (kind.runtime !== 'mlx-lm') expect(listed).not.toContain(models.dir)
    await eventually(async () => (await servers.counted()[0]?.look({ connections: true }))?.requests === 0)

    // On a busy machine an answer may be whole before anybody looks; then another one is asked for.
    const { answer, look } = await eventually(
      async () => {
        const answer = await complete(port, { model, max_tokens: kind.tokens, stream: true })
        const look = await servers.counted()[0]?.look({ connections: true })
        if (look?.requests === 1) return { answer, look }
        await answer.text()
        throw new Error(JSON.stringify(look))
      },
      { what: 'a look that counts the request in flight' },
    )
    expect(look.answer).toBe(kind.tells)
    const stopped = servers.stop('a/b', { drainMs: 60_000 })
    expect((await answer.text()).trimEnd().endsWith('data: [DONE]')).toBe(true)
    expect(await stopped).toEqual({ stopped: true })
    await expectNothingLeft(pid, port, kind)
  })

  test('is taken over by the next agent, also where its ledger is lost, and the memory of all its processes counts', async () => {
    await using room = await ServerRoom.create()
    room.servers.start('a/b', await launchOf(kind, executable))
    const { pid, port } = await room.reached('ready')
    const members = await platform.processGroup(pid)
    expect(members).toHaveLength(kind.processes)
    await room.servers.letGo()

    const file = join(room.folder, 'ledger.json')
    const adopted = async () => {
      const ledger = new Ledger({ file, platform, log: silentLog })
      const next = new Servers({ platform, ledger, stateDir: room.folder, log: silentLog })
      await adoptServers({ ledger, servers: next, platform, log: silentLog, stateDir: room.folder, rules: () => ({}) })
      await eventually(() => next.get('a/b')?.kind === 'ready')
      expect([next.get('a/b'), next.runtimeOf('a/b')]).toMatchObject([{ pid, port }, kind.runtime])
      // A probe that is about to close is an open connection too.
      const look = () => next.counted()[0]?.look({ connections: true })
      await eventually(async () => (await look())?.requests === 0 && (await look())?.answer === kind.tells)
      return next
    }
    await (await adopted()).letGo()
    await rm(file)
    await using last = await adopted()
    expect((await complete(port, { model: modelOf(kind), max_tokens: 1 })).status).toBe(200)
    process.kill(pid, 'SIGKILL')
    const { memory } = await eventually(() => {
      const state = last.get('a/b')
      return state?.kind === 'exited' && state.settled ? state : undefined
    })
    expect(memory?.residentBytes).toBeGreaterThan(0.7 * residentBytesOf(members))
    await expectNothingLeft(pid, port, kind)
  })

  test.each(kind.victims)(
    'whichever of its processes dies (%i), nothing of it is left, and the next starts',
    async (at) => {
      await using room = await ServerRoom.create({ liveness: impatient })
      const launch = await launchOf(kind, executable)
      room.servers.start('a/b', launch)
      const { pid, port } = await room.reached('ready')
      const members = (await livingPids(pid)).toSorted((one, other) => one - other)
      process.kill(members[at] ?? 0, 'SIGKILL')
      const { cause, outOf, failures, message } = await room.settled()
      expect(['itself', 'hung']).toContain(cause)
      expect([outOf, failures]).toEqual(['serving', 1])
      if (at === 0) expect(message).toMatch(/Something killed it.* \(it had [\d.]+ [MG]B of [\d.]+ GB .* before\): /)
      await expectNothingLeft(pid, port, kind)
      room.servers.start('a/b', launch)
      await room.reached('ready', { where: (state) => state.pid !== pid })
    },
  )

  test('a model that it cannot load ends its start at once, and a person reads why and what to do', async () => {
    const { wrong } = kind
    await using room = await ServerRoom.create()
    room.servers.start(
      'a/b',
      await launchOf(kind, executable, wrong.model, { loadMs: wrong.loadMs, stallMs: wrong.stallMs }),
    )
    const exited = await room.settled()
    expect(exited.message).toMatch(wrong.told)
    expect([exited.outOf, exited.failures]).toEqual(['start', 1])
  })

  test('a build is not refused for what it answers to --help, unless it must not be started', async () => {
    const { says, told } = kind.old ?? { says: 'hello', told: /^undefined$/ }
    const old = join(models.dir, `old-${kind.name.replaceAll(' ', '-')}`)
    await writeFile(old, `#!/bin/sh\necho '${says}'\n`, { mode: 0o755 })
    expect(String((await prepare(kind, old, inModels(kind.model))).problem?.message)).toMatch(told)
  })

  test('it counts as installed, is given nothing that it does not know, and each of its flags has a judgement', async () => {
    const found = { kind: 'found', path: executable } as const
    const [view] = await new InstalledRuntimes({
      ...{ offered: () => [kind.runtime], find: () => Promise.resolve(found), dialects },
    }).look()
    expect(view && runtimeState(view)).toBe('ready')
    const runtime = runtimes[kind.runtime]
    const { flags: known = new Set<string>() } = await dialects.of(runtime, executable, launchEnvironment())
    expect([...known].filter((flag) => !runtime.flags.table.has(flag))).toEqual([])
    const argv = (await launchOf(kind, executable)).argv(1)
    expect(argv.filter((word) => word.startsWith('--') && !known.has(word))).toEqual([])
  })
})

test('an argument of the spec that the installed llama-server does not know is refused by its name', async () => {
  const [kind] = kinds
  const build = join(models.dir, 'no-seed')
  const ours = '--model --host --port --n-gpu-layers --ctx-size --metrics --flash-attn --batch-size --alias --no-ui'
  await writeFile(build, `#!/bin/sh\necho '${ours}'\n`, { mode: 0o755 })
  const { problem } = await prepare(kind as Kind, build, inModels('llama.gguf'), { extraArgs: ['--seed', '1'] })
  expect(problem?.message).toMatch(
    /^spec\.extraArgs: --seed is refused: .* does not know it\. .* install another version of llama\.cpp\.$/,
  )
})

test('the port that vllm-swift may have its engine listen at is given to no other server, also by the next agent', async () => {
  await using room = await ServerRoom.create()
  const kind = kindOf('vllm-swift')
  const port = await freePort()
  const at = (one: number) => ({ kind: 'range', from: one, to: one }) as const
  room.servers.start('a/b', { ...(await launchOf(kind, sampleVllmSwiftPath)), port: at(port) })
  await room.reached('ready')
  const other = room.launch({}, { port: at(port + 1_000) })
  room.servers.start('c/d', other)
  expect((await room.reached('failedToSpawn', { key: 'c/d' })).message).toMatch(/^No port from \d+ to \d+ is free/)

  await room.servers.letGo()
  const ledger = new Ledger({ file: join(room.folder, 'ledger.json'), platform, log: silentLog })
  await using next = new Servers({ platform, ledger, stateDir: room.folder, log: silentLog })
  await adoptServers({ ledger, servers: next, platform, log: silentLog, stateDir: room.folder, rules: () => ({}) })
  next.start('c/d', other)
  await eventually(() => next.get('c/d')?.kind === 'failedToSpawn')
})

describe('the real mlx-lm', () => {
  const executable = useMlxLm()

  test('whose port was taken stays without one for ever: it is ended, and started at another', async () => {
    await using room = await ServerRoom.create()
    const launch = await launchOf(kindOf('mlx-lm'), executable, 'mlx', { stallMs: 2_000 })
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const { port: foreign } = taken.address() as AddressInfo
    // Somebody takes the port between the look at it and the first start.
    let first = 0
    const argv = (port: number) => {
      first ||= port
      return launch.argv(port === first ? foreign : port)
    }
    const localCommand = (port: number) => Promise.resolve({ argv: argv(port), links: new Map<string, string>() })
    room.servers.start('a/b', { ...launch, argv, localCommand })
    const { port } = await room.reached('ready')
    expect([first === 0, port === first]).toEqual([false, false])
    taken.close()
  })

  test('is left alone where a client merely keeps a connection open', async () => {
    let probes = 0
    await using room = await ServerRoom.create({ liveness: soon, onProbe: () => (probes += 1) })
    room.servers.start('a/b', await launchOf(kindOf('mlx-lm'), executable))
    await expectLeftAlone(room, () => probes)
  })
})

/** Looked at as often as within minutes. */
const soon = { ...impatient, everyMs: 100, progressEveryMs: 150, stuckLooks: 2 }

async function expectLeftAlone(room: ServerRoom, probes: () => number): Promise<void> {
  const { port } = await room.reached('ready')
  const kept = connect(port, '127.0.0.1')
  await once(kept, 'connect')
  await eventually(() => probes() > 12)
  expect(room.servers.get('a/b')).toMatchObject({ kind: 'ready', healthy: true })
  kept.destroy()
}

describe('a server that counts nothing', () => {
  const start = async (room: ServerRoom, tokenMs: number) => {
    const launch = await launchOf(kindOf('mlx-server'), sampleMlxServerPath)
    room.servers.start('a/b', { ...launch, env: { ...launch.env, SAMPLE_SCRIPT: JSON.stringify({ tokenMs }) } })
    return room.reached('ready')
  }

  test('is ended where its requests stand still, its processor too, and it answers no question for a token', async () => {
    await using room = await ServerRoom.create({ liveness: soon })
    const { port } = await start(room, 60_000)
    const answer = complete(port, { model: 'm', max_tokens: 2 }).catch(() => 'cut')
    expect((await room.settled()).message).toMatch(/made no progress on any request in flight for minutes/)
    expect(await answer).toBe('cut')
  })

  test('is left alone where a client merely keeps a connection open', async () => {
    let probes = 0
    await using room = await ServerRoom.create({ liveness: soon, onProbe: () => (probes += 1) })
    await start(room, 1)
    await expectLeftAlone(room, () => probes)
  })
})

test('a folder that is gone when mlx-server or vllm-swift is spawned is not passed on: either would download it', async () => {
  await using room = await ServerRoom.create()
  for (const kind of kinds.slice(2, 4)) {
    await cp(inModels('mlx'), inModels('gone'), { recursive: true })
    const launch = await launchOf(kind, kind.program(), 'gone')
    await rm(inModels('gone'), { recursive: true })
    room.servers.start(kind.name, launch)
    const { message } = await room.reached('failedToSpawn', { key: kind.name })
    expect(message).toMatch(/^The folder of the model, .*gone, cannot be used: ENOENT/)
    await writeFile(inModels('gone'), 'a file in its place')
    await expect(launch.localCommand?.(1, models.dir)).rejects.toThrow(/gone, cannot be used: it is no folder/)
    expect((await prepare(kind, kind.program(), inModels('gone'))).problem?.message).toMatch(
      /gone is not a folder: name the/,
    )
    await rm(inModels('gone'))
  }
})
