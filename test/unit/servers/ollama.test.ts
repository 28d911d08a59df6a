import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DaemonError, type Daemon, type DaemonTrouble } from '../../../src/agent-core/servers/daemon.ts'
import { daemonAt } from '../../../src/agent-core/servers/daemons.ts'
import { daemonMemoryOf } from '../../../src/agent-core/servers/served-model.ts'
import { canonicalName } from '../../../src/agent-core/servers/ollama.ts'
import type { ServersOptions } from '../../../src/agent-core/servers/servers.ts'
import { eventually } from '../../support/eventually.ts'
import { writeLlamaGguf } from '../../support/gguf-writer.ts'
import { OllamaOfPerson } from '../../support/ollama.ts'
import { SampleOllama } from '../../support/sample-ollama.ts'
import { useOllama } from '../../support/skip.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { complete, daemonSuite, hurried, launchAt as launchIn, stranger, strangerSuite } from './daemon-suite.ts'
import { prepareLaunch } from './prepared-launch.ts'
import { ServerRoom } from './server-room.ts'

const files = await temporaryFolder()
const gguf = join(files.dir, 'llama.gguf')
const strange = join(files.dir, 'banana.gguf')
beforeAll(async () => {
  await writeLlamaGguf(gguf)
  await writeLlamaGguf(strange, { metadata: { 'general.architecture': 'banana' } })
})
afterAll(() => files[Symbol.asyncDispose]())

const launchAt = (port: number, changes: Partial<Parameters<typeof launchIn>[2]> = {}) =>
  launchIn('ollama', port, { model: gguf, ...changes })

/** Lines of the log of a service. */
const logOf = async (room: ServerRoom, key = 'a/b'): Promise<string[]> => {
  const file = room.servers.logFileOf(key)
  const text = file === undefined ? '' : await readFile(file, 'utf8')
  return text.split('\n').filter((line) => line !== '')
}

describe('the real Ollama', () => {
  const executable = useOllama()

  daemonSuite({
    runtime: 'ollama',
    begin: () => OllamaOfPerson.start(executable),
    model: () => Promise.resolve(gguf),
    badModel: () => Promise.resolve(strange),
    badModelSaid: /^Ollama at .*could not be loaded: unable to load .* upgrade Ollama, or/,
    shown: (name) => `${name}:latest`,
    made: (ollama) => ollama.models(),
    drop: (ollama, name) => ollama.ask('POST', '/api/generate', { model: name, keep_alive: 0 }),
    version: /^\d+\.\d+\.\d+/,
  })

  test('is given a model of the store, loads it for good, and has neither it nor its file once it is stopped, but all that it had before', async () => {
    await using ollama = await OllamaOfPerson.start(executable)
    await ollama.have('mine', gguf)
    await using room = await ServerRoom.create(hurried)
    const launch = await launchAt(ollama.port)
    room.servers.start('a/b', launch)
    const { port } = await room.reached('ready')
    const { name } = launch.content
    expect([port === ollama.port, room.servers.factsOf('a/b')?.host, room.servers.factsOf('a/b')?.engine]).toEqual([
      ...[false, '127.0.0.1'],
      { host: '127.0.0.1', port: ollama.port, model: name, isOurs: true },
    ])
    expect(await ollama.models()).toEqual([`${name}:latest`, 'mine:latest'])
    expect(((await (await complete(ollama.port, name)).json()) as { usage: object }).usage).toMatchObject({
      completion_tokens: 2,
    })
    expect((await ollama.ask('GET', '/api/ps')).text).toMatch(/"context_length":128\b/)
    expect(room.servers.toldBytesOf('a/b')).toBeGreaterThan(100_000)
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

  test('has the weights of a file in memory once: a model of them with another context, also from another file, does not take the place of the one before', async () => {
    await using ollama = await OllamaOfPerson.start(executable)
    await using room = await ServerRoom.create(hurried)
    const copy = join(files.dir, 'other-context.gguf')
    await copyFile(gguf, copy)
    const small = await launchAt(ollama.port)
    room.servers.start('a/b', small)
    await room.reached('ready')
    for (const [key, model] of [
      ['c/d', gguf],
      ['e/f', copy],
    ] as const) {
      room.servers.start(key, await launchAt(ollama.port, { model, revision: model, spec: { contextSize: 256 } }))
      expect((await room.settled(key)).message).toMatch(
        /^Ollama at \S+: it already holds these weights with a different context .* give both services the same spec\.contextSize/,
      )
    }
    expect([await ollama.loaded(), room.servers.get('a/b')?.kind]).toEqual([[`${small.content.name}:latest`], 'ready'])
    await room.servers.stop('a/b')
    const from = room.changes.length
    room.servers.start('e/f', await launchAt(ollama.port, { model: copy, spec: { contextSize: 256 } }))
    await room.reached('ready', { key: 'e/f', from })
  })

  test('has two files with the same content in memory once, which counts once, and the last of their services unloads it', async () => {
    await using ollama = await OllamaOfPerson.start(executable)
    await using room = await ServerRoom.create(hurried)
    const copy = join(files.dir, 'copy.gguf')
    await copyFile(gguf, copy)
    const one = await launchAt(ollama.port)
    const other = await launchAt(ollama.port, { model: copy, revision: 'of the copy' })
    expect(other.content.name).not.toBe(one.content.name)
    room.servers.start('a/b', one)
    await room.reached('ready')
    room.servers.start('c/d', other)
    await room.reached('ready', { key: 'c/d' })
    expect(await ollama.loaded()).toEqual([`${one.content.name}:latest`])
    const shared = ['a/b', 'c/d'].map((key) => {
      const { engine, files } = room.servers.factsOf(key) ?? {}
      return engine && daemonMemoryOf(engine, files).sharedAs
    })
    expect(shared[0]).toBe(shared[1])
    await room.servers.stop('a/b')
    const model = room.servers.factsOf('c/d')?.engine?.model ?? ''
    expect([(await complete(ollama.port, model)).status, (await ollama.loaded()).length]).toEqual([200, 1])
    await room.servers.stop('c/d')
    expect([await ollama.loaded(), room.servers.get('c/d')]).toMatchObject([[], { cause: 'stopped', failures: 0 }])
  })

  test('tells in the log of a service what happened to it, which no process writes', async () => {
    await using ollama = await OllamaOfPerson.start(executable)
    await using room = await ServerRoom.create(hurried)
    const launch = await launchAt(ollama.port)
    for (const key of ['a/b', 'c/d']) {
      room.servers.start(key, launch)
      await room.reached('ready', { key })
    }
    for (const key of ['a/b', 'c/d']) await room.servers.stop(key)
    const { name } = launch.content
    const first = await logOf(room)
    const title = `Ollama at 127.0.0.1:${ollama.port}`
    expect(first.map((line) => line.replace(/^\d{4}-\d\d-\d\dT[\d:.]+Z /, ''))).toEqual([
      `${title} will serve ${name}`,
      expect.stringMatching(/^[\d.]+ [kM]?B of llama\.gguf are sent to Ollama|^Ollama at .* has llama\.gguf already$/),
      'llama.gguf is sent',
      `${title} makes the model ${name}`,
      `${name} is made`,
      `${title} loads ${name}`,
      expect.stringMatching(/^It is loaded: [\d.]+ [kM]B in memory, after \d+ s$/),
      'It will leave memory once its requests in flight have finished',
      'It stays in memory for another service of this agent',
      'The model was stopped.',
    ])
    expect((await logOf(room, 'c/d')).slice(-2)).toEqual([
      expect.stringMatching(/ It has left memory$/),
      expect.stringMatching(/ The model was stopped\.$/),
    ])
  })

  test('whose requests are not waited for any longer has the gateway cut them, and unloads its model', async () => {
    await using ollama = await OllamaOfPerson.start(executable)
    await using room = await ServerRoom.create(hurried)
    const launch = await launchAt(ollama.port)
    room.servers.start('a/b', launch)
    await room.reached('ready')
    const client = new AbortController()
    const asked = { max_tokens: 100_000, stream: true }
    const answer = await complete(ollama.port, launch.content.name, asked, {}, client.signal)
    const stopped = room.servers.stop('a/b')
    room.servers.onChange((_key, state) => {
      // As the gateway does, which carries the requests.
      if (state.kind === 'stopping' && state.isCut === true) client.abort()
    })
    expect(room.changes.some(({ state }) => state.kind === 'stopping' && state.isCut === true)).toBe(false)
    expect(room.servers.skipDrain('a/b')).toBe(true)
    await expect(answer.text()).rejects.toThrow('aborted')
    expect([await stopped, await ollama.loaded()]).toEqual([{ stopped: true }, []])
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
})

describe('what answers where Ollama should', () => {
  strangerSuite('ollama', '/api/version')

  test.each([
    [
      'cuts the answer to a creation',
      '{"status":"parsing GGUF"}\n{"sta',
      /could not be made: its answer was cut short\.$/,
    ],
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

  /** One that serves a model, and answers the agent's looks at it as is said. */
  async function serving(options: Partial<ServersOptions> = hurried) {
    await using stack = new AsyncDisposableStack()
    const sample = stack.use(await SampleOllama.start())
    const room = stack.use(await ServerRoom.create(options))
    const launch = await launchAt(sample.port)
    room.servers.start('a/b', launch)
    await room.reached('ready')
    const answerLooks = (answer: (response: ServerResponse) => void) =>
      (sample.before = (request, response) => {
        if (request.url === '/api/ps') answer(response)
        return request.url === '/api/ps'
      })
    sample.changes.length = 0
    const owned = stack.move()
    return { sample, room, launch, answerLooks, [Symbol.asyncDispose]: () => owned.disposeAsync() }
  }

  const page = (it: ServerResponse) => void it.end('<html>hello</html>')

  test.each<[string, (response: ServerResponse) => void, RegExp]>([
    ['a page with status 500', (it) => it.writeHead(500).end('<h1>500</h1>'), /\(\/api\/ps: status 500\): stop/],
    ['a page', page, /\(\/api\/ps: status 200\)/],
    ['half an answer', (it) => it.end('{"models":[{"na'), /\(\/api\/ps: status 200\)/],
  ])(
    'that answers with %s again and again while it serves is another program, which is told to delete nothing',
    async (_what, answer, told) => {
      await using there = await serving()
      const { sample, room, launch, answerLooks } = there
      answerLooks(answer)
      const { message, outOf, cause } = await room.settled()
      expect([outOf, cause, message]).toEqual(['serving', 'itself', expect.stringMatching(told)])
      expect([message.includes('is not Ollama'), sample.changes]).toEqual([true, []])
      sample.before = () => false
      const from = room.changes.length
      room.servers.start('a/b', launch)
      await room.reached('ready', { from })
      expect(sample.loaded).toHaveLength(1)
    },
  )

  test.each<[string, (response: ServerResponse) => void]>([
    ['an error', (it) => it.writeHead(500).end('{"error":"no GPU"}')],
    ['nothing whole', (it) => it.socket?.destroy()],
  ])('that answers with %s while it serves has its model until it is seen without', async (_what, answer) => {
    await using there = await serving()
    const { sample, room, answerLooks } = there
    const from = room.changes.length
    answerLooks(answer)
    expect((await room.reached('ready', { from, where: ({ healthy }) => !healthy })).trouble).toBe('unknown')
    sample.before = () => false
    await room.reached('ready', { from, where: ({ healthy }) => healthy })
    expect([room.kinds().slice(from), sample.changes]).toEqual([['ready', 'ready'], []])
  })

  test('that could not be asked, or answers once as another program, says nothing of its model', async () => {
    let looks = 0
    let why: DaemonTrouble | undefined
    const daemons: ServersOptions['daemons'] = (runtime, address) => {
      const daemon = daemonAt(runtime, address)
      const look = daemon.look.bind(daemon)
      const lookUnlessTold: Daemon['look'] = (...question) => {
        looks += 1
        return why ? Promise.reject(new DaemonError(why, 'a test')) : look(...question)
      }
      return Object.assign(daemon, { look: lookUnlessTold })
    }
    await using there = await serving({ ...hurried, daemons })
    const { sample, room } = there
    const from = room.changes.length
    const untilLooked = async (times: number) => {
      const before = looks
      await eventually(() => looks >= before + times)
    }
    why = 'notAsked'
    await untilLooked(5)
    expect(room.changes.slice(from)).toEqual([])
    why = 'stranger'
    await untilLooked(1)
    why = undefined
    await untilLooked(2)
    expect([room.servers.get('a/b')?.kind, sample.changes]).toEqual(['ready', []])
  })

  test('that counts no requests keeps a model for those that the gateway forwards to it', async () => {
    let atGateway = 1
    await using there = await serving({ ...hurried, atGateway: () => Promise.resolve(atGateway) })
    const { sample, room } = there
    const stopped = room.servers.stop('a/b')
    await room.reached('stopping', { where: ({ drain }) => drain?.requestsInFlight === 1 })
    expect(sample.changes).toEqual([])
    atGateway = 0
    expect([await stopped, sample.loaded]).toEqual([{ stopped: true }, []])
  })

  test('that hangs while a model is to leave it holds what nobody knows, until it answers: the model is counted so long', async () => {
    await using there = await serving()
    const { sample, room } = there
    sample.hang()
    const stopped = room.servers.stop('a/b', { drainMs: 0, graceMs: 0 })
    const { hangs } = await room.reached('stopping', { where: (state) => state.hangs !== undefined })
    expect(hangs).toMatch(/^Whether the model left memory is unknown: Ollama at \S+ does not answer\.$/)
    sample.goOn()
    expect([await stopped, sample.loaded, sample.models.size]).toEqual([{ stopped: true }, [], 0])
  })

  test('whose disk fills while a file is sent says so, and has nothing of it', async () => {
    await using sample = await SampleOllama.start()
    await using room = await ServerRoom.create(hurried)
    sample.before = ({ method, url }, response) => {
      const isSent = method === 'POST' && url?.startsWith('/api/blobs/') === true
      if (isSent) response.writeHead(500).end('{"error":"write /blobs: no space left on device"}')
      return isSent
    }
    const launch = await launchAt(sample.port)
    room.servers.start('a/b', launch)
    const { message, outOf } = await room.settled()
    expect([outOf, message]).toEqual([
      'start',
      `Ollama at 127.0.0.1:${sample.port}: llama.gguf was not taken: write /blobs: no space left on device.`,
    ])
    expect(sample.changes).toEqual([`DELETE /api/delete ${launch.content.name}`])
  })

  test('that has a model under another spelling of its name is not given it again', async () => {
    await using sample = await SampleOllama.start()
    await using room = await ServerRoom.create(hurried)
    const launch = await launchAt(sample.port)
    sample.have(`registry.ollama.ai/${launch.content.name.toUpperCase()}`)
    room.servers.start('a/b', launch)
    await room.reached('ready')
    expect(sample.changes).toEqual([`POST /api/generate ${launch.content.name}`])
    await room.servers.stop('a/b')
    expect([sample.loaded, sample.models.size]).toEqual([[], 0])
  })
})

test.each([
  ['llama3', 'registry.ollama.ai/library/llama3:latest'],
  ['Llama3:8B', 'registry.ollama.ai/library/llama3:8b'],
  ['me/llama3', 'registry.ollama.ai/me/llama3:latest'],
  ['Registry.Ollama.ai/Library/Llama3:LATEST', 'registry.ollama.ai/library/llama3:latest'],
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
