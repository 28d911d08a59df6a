import { copyFile, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { canonicalName } from '../../../src/agent-core/servers/ollama.ts'
import { writeLlamaGguf } from '../../support/gguf-writer.ts'
import { OllamaOfPerson } from '../../support/ollama.ts'
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

const launchAt = (port: number, changes: { readonly model?: string; readonly revision?: string } = {}) =>
  launchIn('ollama', port, { model: gguf, ...changes })

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

  test('that came back without a model is given it again', async () => {
    await using ollama = await OllamaOfPerson.start(executable)
    await using room = await ServerRoom.create(hurried)
    const launch = await launchAt(ollama.port)
    room.servers.start('a/b', launch)
    await room.reached('ready')
    await ollama.stop()
    await room.settled()
    await ollama.start()
    await ollama.ask('DELETE', '/api/delete', { model: launch.content.name })
    const from = room.changes.length
    room.servers.start('a/b', launch)
    await room.reached('ready', { from })
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
