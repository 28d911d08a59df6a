import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { canonicalName } from '../../../src/agent-core/servers/ollama.ts'
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
    expect([port === ollama.port, room.servers.hostOf('a/b'), room.servers.engineOf('a/b')]).toEqual([
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
    const shared = ['a/b', 'c/d'].map((key) => room.servers.daemonMemoryOf(key)?.sharedAs)
    expect(shared[0]).toBe(shared[1])
    await room.servers.stop('a/b')
    const model = room.servers.engineOf('c/d')?.model ?? ''
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

  test.each<[string, (response: ServerResponse) => void, RegExp, boolean]>([
    [
      'a page with status 500',
      (it) => it.writeHead(500).end('<h1>500</h1>'),
      /is not Ollama \(\/api\/ps: status 500\): stop/,
      false,
    ],
    ['a page', (it) => it.end('<html>hello</html>'), /is not Ollama \(\/api\/ps: status 200\)/, false],
    ['half an answer', (it) => it.end('{"models":[{"na'), /is not Ollama/, false],
    ['an error', (it) => it.writeHead(500).end('{"error":"no GPU"}'), /^Ollama at .*: \/api\/ps: no GPU\.$/, true],
    ['nothing whole', (it) => it.socket?.destroy(), /^Ollama at .* broke the connection: socket hang up\.$/, true],
  ])(
    'that answers with %s while it serves is told by name, and serves again when that has passed',
    async (_what, answer, told, isAsked) => {
      await using sample = await SampleOllama.start()
      await using room = await ServerRoom.create(hurried)
      const launch = await launchAt(sample.port)
      room.servers.start('a/b', launch)
      await room.reached('ready')
      sample.before = (request, response) => {
        if (request.url === '/api/ps') answer(response)
        return request.url === '/api/ps'
      }
      const { message, outOf, cause } = await room.settled()
      expect([outOf, cause, message]).toEqual(['serving', 'itself', expect.stringMatching(told)])
      // What is another program is told to delete nothing.
      expect(sample.changes.some((change) => change.startsWith('DELETE'))).toBe(isAsked)
      sample.before = () => false
      const from = room.changes.length
      room.servers.start('a/b', launch)
      await room.reached('ready', { from })
      expect(sample.loaded).toHaveLength(1)
    },
  )

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
