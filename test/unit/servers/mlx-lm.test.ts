import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { inferenceServiceSpec, modelSpec } from '../../../src/agent-core/kube/resources.ts'
import { mlxLmRuntime } from '../../../src/agent-core/runtimes/mlx-lm.ts'
import { adoptServers } from '../../../src/agent-core/servers/adoption.ts'
import { launchEnvironment, type ServerLaunch } from '../../../src/agent-core/servers/launch.ts'
import { Ledger } from '../../../src/agent-core/servers/ledger.ts'
import { Servers } from '../../../src/agent-core/servers/servers.ts'
import { eventually } from '../../support/eventually.ts'
import { writeMlxModel } from '../../support/mlx-writer.ts'
import { useMlxLm } from '../../support/skip.ts'
import { silentLog } from '../../support/silent-log.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { livingPids, platform, ServerRoom } from './server-room.ts'

const mlxLm = useMlxLm()
const models = await temporaryFolder()
const tiny = join(models.dir, 'tiny')
const empty = join(models.dir, 'empty')

beforeAll(async () => {
  await writeMlxModel(tiny)
  await mkdir(empty)
})
afterAll(() => models[Symbol.asyncDispose]())

/** As the agent starts it for a service with this spec. */
function launchOf(room: ServerRoom, modelPath: string, spec: object = {}): ServerLaunch {
  const model = modelSpec.parse({ source: modelPath, format: 'mlx' })
  const argv = (port: number) =>
    mlxLmRuntime.argv({ spec: inferenceServiceSpec.parse(spec), model, modelPath, port, promptCacheMiB: 1 })
  return room.launch(
    {},
    {
      ...{ runtime: 'mlx-lm', executable: mlxLm, argv, startupStallMs: 60_000 },
      localCommand: (port) => mlxLmRuntime.localCommand(argv(port)),
      env: launchEnvironment(mlxLmRuntime.environment),
    },
  )
}

const complete = (port: number, body: object, signal?: AbortSignal) =>
  fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], ...body }),
    ...(signal && { signal }),
  })

test('mlx-lm answers once it is ready, tells no client another model of this person, and is adopted by the next agent', async () => {
  await using room = await ServerRoom.create()
  room.servers.start('a/b', launchOf(room, tiny))
  const { pid, port } = await room.reached('ready')
  const answer = (await (await complete(port, { max_tokens: 2 })).json()) as { usage: { completion_tokens: number } }
  expect(answer.usage.completion_tokens).toBe(2)
  const listed = (await (await fetch(`http://127.0.0.1:${port}/v1/models`)).json()) as { data: { id: string }[] }
  expect(listed.data.map(({ id }) => id)).toEqual([tiny])
  expect(await room.servers.counted()[0]?.look({ connections: true })).toMatchObject({ answer: 'untold', requests: 0 })

  await room.servers.letGo()
  const ledger = new Ledger({ file: join(room.folder, 'ledger.json'), platform, log: silentLog })
  await using next = new Servers({ platform, ledger, stateDir: room.folder, log: silentLog })
  await adoptServers({ ledger, servers: next, platform, log: silentLog, stateDir: room.folder, rules: () => ({}) })
  expect([next.runtimeOf('a/b'), next.get('a/b')]).toMatchObject(['mlx-lm', { pid, port }])
  await eventually(() => next.get('a/b')?.kind === 'ready')
  expect((await complete(port, { max_tokens: 1 })).status).toBe(200)
  expect(await next.stop('a/b')).toEqual({ stopped: true })
  expect(await livingPids(pid)).toEqual([])
})

test('a request in flight finishes before it is stopped, since mlx-lm itself cuts it', async () => {
  await using room = await ServerRoom.create()
  room.servers.start('a/b', launchOf(room, tiny))
  const { port } = await room.reached('ready')
  const answer = await complete(port, { max_tokens: 200, stream: true, stream_options: { include_usage: true } })
  const stopped = room.servers.stop('a/b', { drainMs: 60_000 })
  const text = await answer.text()
  expect(text).toContain('"completion_tokens": 200')
  expect(text.trimEnd().endsWith('data: [DONE]')).toBe(true)
  expect(await stopped).toEqual({ stopped: true })
})

test('where its model cannot be loaded it stays and says so over and over: it is ended at once, with its own words', async () => {
  await using room = await ServerRoom.create()
  room.servers.start('a/b', launchOf(room, empty))
  const exited = await room.settled()
  expect(exited).toMatchObject({ cause: 'hung', outOf: 'start', failures: 1 })
  expect(exited.message).toMatch(/config\.json/)
})

test('one that is killed is an end like any other', async () => {
  await using room = await ServerRoom.create()
  room.servers.start('a/b', launchOf(room, tiny))
  const { pid } = await room.reached('ready')
  process.kill(pid, 'SIGKILL')
  expect(await room.settled()).toMatchObject({ cause: 'itself', signal: 'SIGKILL', outOf: 'serving' })
})

test('what the installed mlx-lm does not know is not passed on, and each of its flags has a judgement', async () => {
  const { askProgram } = await import('../../../src/agent-core/util/ask-program.ts')
  const { stdout } = await askProgram({
    ...{ command: mlxLm, args: ['--help'], env: launchEnvironment(), timeLimitMs: 60_000 },
  })
  const { flags: known = new Set<string>() } = mlxLmRuntime.dialectFrom(stdout)
  expect([...known].filter((flag) => !mlxLmRuntime.flags.table.has(flag))).toEqual([])
  const argv = mlxLmRuntime.argv({
    ...{ spec: inferenceServiceSpec.parse({}), model: modelSpec.parse({ source: tiny }), modelPath: tiny, port: 1 },
    promptCacheMiB: 1,
  })
  expect(argv.filter((word) => word.startsWith('--') && !known.has(word))).toEqual([])
})
