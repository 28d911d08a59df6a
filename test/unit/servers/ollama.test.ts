import { createServer, type RequestListener } from 'node:http'
import { once } from 'node:events'
import { copyFile, mkdir, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { adoptServers } from '../../../src/agent-core/servers/adoption.ts'
import { isOfDaemon, type DaemonLaunch } from '../../../src/agent-core/servers/launch.ts'
import { Ledger } from '../../../src/agent-core/servers/ledger.ts'
import { livenessTimings } from '../../../src/agent-core/servers/liveness.ts'
import { canonicalName } from '../../../src/agent-core/servers/ollama.ts'
import { Servers } from '../../../src/agent-core/servers/servers.ts'
import { findDaemon } from '../../../src/agent-core/runtimes/installed.ts'
import { runtimes } from '../../../src/agent-core/runtimes/runtimes.ts'
import { eventually } from '../../support/eventually.ts'
import { freePort } from '../../support/free-port.ts'
import { writeLlamaGguf } from '../../support/gguf-writer.ts'
import { OllamaOfPerson } from '../../support/ollama.ts'
import { silentLog } from '../../support/silent-log.ts'
import { useOllama } from '../../support/skip.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { prepareLaunch } from './prepared-launch.ts'
import { platform, ServerRoom } from './server-room.ts'

const files = await temporaryFolder()
const gguf = join(files.dir, 'llama.gguf')
const strange = join(files.dir, 'banana.gguf')
beforeAll(async () => {
  await writeLlamaGguf(gguf)
  await writeLlamaGguf(strange, { metadata: { 'general.architecture': 'banana' } })
})
afterAll(() => files[Symbol.asyncDispose]())

/** Looked at as often as within minutes. */
const impatient = { ...livenessTimings, everyMs: 100, answerWithinMs: 200, followUpMs: 50, misses: 1, hungMisses: 2 }
const hurried = { liveness: impatient }

interface Changes {
  readonly model?: string
  readonly revision?: string
  readonly contextSize?: number
}

async function launchAt(
  port: number,
  { model = gguf, revision = 'r', contextSize = 128 }: Changes = {},
): Promise<DaemonLaunch> {
  const asked = { executable: `http://127.0.0.1:${port}`, model, revision, daemonPort: port, spec: { contextSize } }
  const { problem, launch } = await prepareLaunch('ollama', asked)
  expect(problem).toBeUndefined()
  const made = await launch()
  if (!isOfDaemon(made)) throw new TypeError('Ollama is a daemon')
  return made
}

const complete = (port: number, model: string, more: object = {}) =>
  fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    ...{ method: 'POST', headers: { 'content-type': 'application/json', connection: 'close' } },
    body: JSON.stringify({ model, max_tokens: 2, messages: [{ role: 'user', content: 'hello' }], ...more }),
  })

describe('the real Ollama', () => {
  const executable = useOllama()

  test('is given a model of the store, loads it for good, and has neither it nor its file once it is stopped, but all that it had before', async () => {
    await using ollama = await OllamaOfPerson.start(executable)
    await ollama.have('mine', gguf)
    await using room = await ServerRoom.create(hurried)
    const launch = await launchAt(ollama.port)
    room.servers.start('a/b', launch)
    const { port } = await room.reached('ready')
    const { name } = launch.content
    expect([port === ollama.port, room.servers.hostOf('a/b'), room.servers.engineOf('a/b')]).toEqual([
      ...[false, '127.0.0.1'],
      { host: '127.0.0.1', port: ollama.port, model: name, isOurs: true },
    ])
    expect(await ollama.models()).toEqual([`${name}:latest`, 'mine:latest'])
    expect(((await (await complete(ollama.port, name)).json()) as { usage: object }).usage).toMatchObject({
      completion_tokens: 2,
    })
    expect((await ollama.ask('GET', '/api/ps')).text).toMatch(/"context_length":128\b/)
    expect(room.servers.toldBytesOf('a/b', 'current')).toBeGreaterThan(100_000)
    expect(await room.servers.stop('a/b')).toEqual({ stopped: true })
    expect([await ollama.models(), await ollama.loaded()]).toEqual([['mine:latest'], []])
    expect(room.servers.get('a/b')).toMatchObject({ kind: 'exited', cause: 'stopped', settled: true, failures: 0 })
  })

  test('is told what the library says of a tag beside its weights', async () => {
    await using ollama = await OllamaOfPerson.start(executable)
    await using room = await ServerRoom.create(hurried)
    const folder = join(files.dir, 'of-library')
    await mkdir(folder)
    await copyFile(gguf, join(folder, 'tiny.gguf'))
    await writeFile(join(folder, 'template.ollama'), 'Q: {{ .Prompt }} A:')
    await writeFile(join(folder, 'system.ollama'), 'You are a pear.')
    await writeFile(join(folder, 'params.ollama'), '{"stop":["Q:"],"num_ctx":9999}')
    const launch = await launchAt(ollama.port, { model: join(folder, 'tiny.gguf'), revision: 'library' })
    room.servers.start('a/b', launch)
    await room.reached('ready')
    const shown = JSON.parse((await ollama.ask('POST', '/api/show', { model: launch.content.name })).text) as object
    expect(shown).toMatchObject({ template: 'Q: {{ .Prompt }} A:', system: 'You are a pear.' })
    expect(JSON.stringify(shown)).toMatch(/num_ctx +128/)
    expect(JSON.stringify(shown)).toMatch(/stop +\\"Q:\\"/)
  })

  test('finishes the answer that it gives before a model leaves its memory', async () => {
    await using ollama = await OllamaOfPerson.start(executable)
    await using room = await ServerRoom.create(hurried)
    const launch = await launchAt(ollama.port)
    room.servers.start('a/b', launch)
    await room.reached('ready')
    const answer = await complete(ollama.port, launch.content.name, { max_tokens: 40, stream: true })
    const stopped = room.servers.stop('a/b')
    expect((await answer.text()).trimEnd().endsWith('data: [DONE]')).toBe(true)
    expect([await stopped, await ollama.loaded()]).toEqual([{ stopped: true }, []])
  })

  test('serves two services with one model from one place, and only the last of them unloads it', async () => {
    await using ollama = await OllamaOfPerson.start(executable)
    await using room = await ServerRoom.create(hurried)
    const launch = await launchAt(ollama.port)
    room.servers.start('a/b', launch)
    room.servers.start('c/d', launch)
    const [one, other] = [await room.reached('ready'), await room.reached('ready', { key: 'c/d' })]
    expect([one.port === other.port, await ollama.loaded()]).toEqual([false, [`${launch.content.name}:latest`]])
    await room.servers.stop('a/b')
    expect((await complete(ollama.port, launch.content.name)).status).toBe(200)
    expect(await ollama.loaded()).toEqual([`${launch.content.name}:latest`])
    await room.servers.stop('c/d')
    expect([await ollama.loaded(), await ollama.models()]).toEqual([[], []])
  })

  test('is left alone by an agent that ends, and the next one takes its model up where it is', async () => {
    await using ollama = await OllamaOfPerson.start(executable)
    await using room = await ServerRoom.create(hurried)
    const launch = await launchAt(ollama.port)
    room.servers.start('a/b', launch)
    const { port } = await room.reached('ready')
    await room.servers.letGo()
    expect(await ollama.loaded()).toEqual([`${launch.content.name}:latest`])

    const ledger = new Ledger({ file: join(room.folder, 'ledger.json'), platform, log: silentLog })
    await using next = new Servers({ platform, ledger, stateDir: room.folder, log: silentLog, liveness: impatient })
    await adoptServers({ ledger, servers: next, platform, log: silentLog, stateDir: room.folder, rules: () => ({}) })
    expect(next.get('a/b')).toMatchObject({ kind: 'starting', unasked: true, port })
    await eventually(() => next.get('a/b')?.kind === 'ready')
    expect([next.digestOf('a/b'), next.runtimeOf('a/b'), next.get('a/b')]).toMatchObject([
      launch.digest,
      'ollama',
      { port },
    ])
    await next.stop('a/b')
    expect([await ollama.loaded(), await ollama.models()]).toEqual([[], []])
  })

  test('tells by what it holds that a model was dropped: it ends at once as one that failed, and starts again', async () => {
    await using ollama = await OllamaOfPerson.start(executable)
    await using room = await ServerRoom.create(hurried)
    const launch = await launchAt(ollama.port)
    room.servers.start('a/b', launch)
    await room.reached('ready')
    await ollama.ask('POST', '/api/generate', { model: launch.content.name, keep_alive: 0 })
    const { message, outOf, cause } = await room.settled()
    expect([outOf, cause]).toEqual(['serving', 'itself'])
    expect(message).toMatch(/^Ollama at 127\.0\.0\.1:\d+ holds it in memory no longer/)
    const from = room.changes.length
    room.servers.start('a/b', launch)
    await room.reached('ready', { from })
    expect((await complete(ollama.port, launch.content.name)).status).toBe(200)
  })

  test('whose model ends while it is asked to stop tells one end', async () => {
    await using ollama = await OllamaOfPerson.start(executable)
    await using room = await ServerRoom.create(hurried)
    const launch = await launchAt(ollama.port)
    room.servers.start('a/b', launch)
    await room.reached('ready')
    const stops: Promise<unknown>[] = []
    room.servers.onChange((key, state) => {
      if (state.kind === 'exited' && !state.settled) stops.push(room.servers.stop(key))
    })
    await ollama.ask('POST', '/api/generate', { model: launch.content.name, keep_alive: 0 })
    expect((await room.settled()).cause).toBe('itself')
    expect([await Promise.all(stops), room.kinds().slice(-2)]).toEqual([[{ stopped: true }], ['exited', 'settled']])
  })

  test('that is gone, back without its models or suspended is told apart, and the next start heals it', async () => {
    await using ollama = await OllamaOfPerson.start(executable)
    await using room = await ServerRoom.create(hurried)
    const launch = await launchAt(ollama.port)
    room.servers.start('a/b', launch)
    await room.reached('ready')
    await ollama.stop()
    expect((await room.settled()).message).toBe(`Nobody listens at 127.0.0.1:${ollama.port}: Ollama does not run.`)
    let from = room.changes.length
    room.servers.start('a/b', launch)
    expect(await room.reached('exited', { from, where: ({ settled }) => settled })).toMatchObject({
      ...{ outOf: 'start', failures: 2 },
    })

    await ollama.start()
    await ollama.ask('DELETE', '/api/delete', { model: launch.content.name })
    from = room.changes.length
    room.servers.start('a/b', launch)
    await room.reached('ready', { from })

    ollama.suspend()
    await room.reached('ready', { from, where: ({ healthy }) => !healthy })
    const { cause, message } = await room.reached('exited', { from })
    expect([cause, message]).toEqual([
      'hung',
      `Ollama at 127.0.0.1:${ollama.port} does not answer. It was asked 2 times.`,
    ])
  })

  test('that cannot load a model says why', async () => {
    await using ollama = await OllamaOfPerson.start(executable)
    await using room = await ServerRoom.create(hurried)
    room.servers.start('a/b', await launchAt(ollama.port, { model: strange }))
    const { message, outOf } = await room.settled()
    expect(await ollama.models()).toEqual([])
    expect([outOf, message]).toEqual([
      'start',
      expect.stringMatching(/^Ollama at .*could not be loaded: unable to load .* upgrade Ollama, or/),
    ])
  })

  test('loses what an agent that was killed left in it, once that agent loads something again, and nothing else', async () => {
    await using ollama = await OllamaOfPerson.start(executable)
    await ollama.have('mine', gguf)
    await ollama.have('metalbar-other/mine', gguf)
    await ollama.have('metalbar-test/0123456789abcdef', gguf)
    await using room = await ServerRoom.create(hurried)
    const launch = await launchAt(ollama.port)
    room.servers.start('a/b', launch)
    await room.reached('ready')
    expect(await ollama.models()).toEqual(
      ['metalbar-other/mine:latest', `${launch.content.name}:latest`, 'mine:latest'].toSorted(),
    )
  })

  test('is found with its version where it listens', async () => {
    await using ollama = await OllamaOfPerson.start(executable)
    const found = await findDaemon(runtimes.ollama, ollama.port)
    expect(found.kind === 'found' && found.version).toMatch(/^\d+\.\d+\.\d+/)
  })
})

describe('what answers where Ollama should', () => {
  const stranger = async (answer: RequestListener): Promise<number> => {
    const server = createServer(answer).listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => server.close().closeAllConnections())
    return (server.address() as AddressInfo).port
  }
  const json =
    (value: unknown): RequestListener =>
    (_request, response) => {
      response.end(JSON.stringify(value))
    }

  test('may be nobody, another program, broken or silent: each is one sentence that says what to do', async () => {
    const said = async (port: number) => {
      const found = await findDaemon(runtimes.ollama, port)
      return found.kind === 'missing' ? found.message : 'found'
    }
    expect(await said(await freePort())).toMatch(/^Ollama does not run at 127\.0\.0\.1:\d+: open the Ollama app or/)
    expect(await said(0)).toMatch(/--ollama-port 0/)
    const page = await stranger((_request, response) => void response.end('<html>Ollama is running</html>'))
    expect(await said(page)).toMatch(/is not Ollama .*: stop that program, or say with --ollama-port/)
    const broken = await stranger((_request, response) => void response.writeHead(500).end('<h1>500</h1>'))
    expect(await said(broken)).toMatch(/is not Ollama \(\/api\/version: status 500\)/)
    expect(await said(await stranger(json({ version: 7 })))).toMatch(/is not Ollama/)
    expect(await said(await stranger((request) => void request.socket.destroy()))).toMatch(/^Ollama at .* broke off/)
    expect(await said(await stranger(() => undefined))).toMatch(/^Ollama at .* does not answer\.$/)
  })

  test.each([
    ['cuts the answer to a creation', '{"status":"parsing GGUF"}\n{"sta', /could not be made: its answer broke off\.$/],
    [
      'says that it failed, under 200',
      '{"status":"parsing"}\n{"error":"no space left on device"}\n',
      /no space left on device\.$/,
    ],
    ['sends a line without end', `{"status":"${'x'.repeat(200_000)}`, /a line of the answer is too long/],
  ])('that %s loads nothing', async (_what, lines, told) => {
    const port = await stranger((request, response) => {
      const path = request.url ?? ''
      if (path === '/api/tags') response.end('{"models":[]}')
      else if (path === '/api/create') response.end(lines)
      else response.writeHead(path.startsWith('/api/blobs/') ? 200 : 404).end('{}')
    })
    await using room = await ServerRoom.create(hurried)
    room.servers.start('a/b', await launchAt(port))
    const { message, outOf } = await room.settled()
    expect([outOf, message]).toEqual(['start', expect.stringMatching(told)])
  })

  test('that loads for ever and is silent otherwise is given up, with that sentence', async () => {
    const port = await stranger((request, response) => {
      if (request.url === '/api/tags') response.end('{"models":[]}')
      else if (request.url === '/api/create') response.end('{"status":"success"}')
      else if (request.method === 'HEAD') response.end()
    })
    await using room = await ServerRoom.create(hurried)
    room.servers.start('a/b', await launchAt(port))
    const { message, outOf } = await room.reached('exited')
    expect([outOf, message]).toEqual(['start', `Ollama at 127.0.0.1:${port} does not answer.`])
  })

  test('and serves a model from elsewhere is not used: what clients ask would leave this machine', async () => {
    const launched: string[] = []
    const named = async (port: number) => (await launchAt(port)).content.name
    const port = await stranger((request, response) => {
      if (request.url === '/api/generate') launched.push(request.url)
      void named(1).then((name) =>
        response.end(
          JSON.stringify({ models: [{ name: `${name}:latest`, digest: 'x', remote_host: 'https://elsewhere' }] }),
        ),
      )
    })
    await using room = await ServerRoom.create(hurried)
    room.servers.start('a/b', await launchAt(port))
    expect((await room.settled()).message).toMatch(/answered by https:\/\/elsewhere and not by this machine/)
    expect(launched).toEqual([])
  })
})

test.each([
  ['llama3', 'registry.ollama.ai/library/llama3:latest'],
  ['Llama3:8B', 'registry.ollama.ai/library/llama3:8b'],
  ['me/llama3', 'registry.ollama.ai/me/llama3:latest'],
  ['localhost:5000/me/llama3', 'localhost:5000/me/llama3:latest'],
  ['registry.ollama.ai/library/llama3:latest', 'registry.ollama.ai/library/llama3:latest'],
])('%s is %s', (name, whole) => {
  expect(canonicalName(name)).toBe(whole)
})

test('a model in parts, and arguments, are refused before anything is asked of Ollama', async () => {
  const parts = join(files.dir, 'big-00001-of-00002.gguf')
  const asked = { executable: 'http://127.0.0.1:1', model: parts, daemonPort: 1 }
  expect((await prepareLaunch('ollama', asked)).problem?.message).toMatch(/first of several parts/)
  const args = prepareLaunch('ollama', { ...asked, spec: { extraArgs: ['--seed', '1'] } })
  await expect(args).rejects.toThrow(/--seed is refused/)
})
