import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { findDaemon } from '../../../src/agent-core/runtimes/installed.ts'
import { runtimes } from '../../../src/agent-core/runtimes/runtimes.ts'
import { defaultOmlxPort, Omlx, omlxBasePath } from '../../../src/agent-core/servers/omlx.ts'
import { eventually } from '../../support/eventually.ts'
import { freePort } from '../../support/free-port.ts'
import { writeMlxModel } from '../../support/mlx-writer.ts'
import { OmlxOfPerson } from '../../support/omlx.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import {
  adoptedFrom,
  complete,
  daemonSuite,
  hurried,
  json,
  launchAt as launchIn,
  stranger,
  strangerSuite,
} from './daemon-suite.ts'
import { prepareLaunch } from './prepared-launch.ts'
import { ServerRoom } from './server-room.ts'

const lent = await temporaryFolder()
const apples = join(lent.dir, 'apples')
beforeAll(() => writeMlxModel(apples))
afterAll(() => lent[Symbol.asyncDispose]())
afterEach(() => void vi.unstubAllEnvs())

/** Its key is looked for where it keeps it. */
async function begin(options: Parameters<typeof OmlxOfPerson.start>[0] = {}): Promise<OmlxOfPerson> {
  const omlx = await OmlxOfPerson.start({ folders: [lent.dir], ...options })
  vi.stubEnv('OMLX_BASE_PATH', omlx.basePath)
  return omlx
}

const launchAt = (port: number, model = apples) => launchIn('omlx', port, { model })

describe('a sample of oMLX', () => {
  daemonSuite({
    runtime: 'omlx',
    // An answer is still being made when its model could be unloaded.
    begin: () => begin({ script: { tokenMs: 15 } }),
    model: () => Promise.resolve(apples),
    badModel: async (omlx) => {
      const folder = await omlx.have('bananas')
      await writeFile(join(folder, 'config.json'), '{"model_type":"banana"}')
      return folder
    },
    badModelSaid:
      /^oMLX at .*: bananas could not be loaded: Model 'bananas' .*banana not supported.* only after its models have been reloaded at http:\/\/127\.0\.0\.1:\d+\/admin/,
    shown: (name) => name,
    made: () => Promise.resolve([]),
    drop: (omlx, name) => omlx.ask('POST', `/v1/models/${name}/unload`),
    version: /^0\.6\.3$/,
  })

  test('loads a model of its own or of a folder that it was given, tells what it holds, and unloads that one alone', async () => {
    await using omlx = await begin()
    const pears = await omlx.have('pears')
    await omlx.have('mine')
    await omlx.ask('POST', '/v1/models/mine/load')
    await using room = await ServerRoom.create(hurried)
    room.servers.start('a/b', await launchAt(omlx.port))
    room.servers.start('c/d', await launchAt(omlx.port, pears))
    const [one, other] = [await room.reached('ready'), await room.reached('ready', { key: 'c/d' })]
    expect([one.port === omlx.port, one.port === other.port]).toEqual([false, false])
    expect(room.servers.factsOf('a/b')?.engine).toEqual({ ...at(omlx.port), model: 'apples', isOurs: false })
    expect(room.servers.toldBytesOf('a/b')).toBeGreaterThan(100_000)
    expect((await complete(omlx.port, 'apples')).status).toBe(200)
    expect(await room.servers.stop('a/b')).toEqual({ stopped: true })
    expect(await omlx.loaded()).toEqual(['mine', 'pears'])
  })

  const at = (port: number) => ({ host: '127.0.0.1', port })

  test('that a key opens gets the one in its settings, which no ledger, log or state has, and which the gateway is told anew where it changes', async () => {
    await using omlx = await begin({ key: 'first-secret' })
    await using room = await ServerRoom.create(hurried)
    room.servers.start('a/b', await launchAt(omlx.port))
    const from = room.changes.length
    const toldKeys = new Set<string | undefined>()
    room.servers.onChange((key, { kind }) => kind === 'ready' && toldKeys.add(room.servers.apiKeyOf(key)))
    await room.reached('ready')
    expect([room.servers.apiKeyOf('a/b'), await omlx.loaded()]).toEqual(['first-secret', ['apples']])
    await omlx.setKey('second-secret')
    await eventually(() => toldKeys.has('second-secret'), { what: 'telling the new key' })
    expect(room.kinds()).not.toContain('exited')
    const told = JSON.stringify([
      room.changes.slice(from),
      room.servers.factsOf('a/b')?.engine,
      (await room.ledger.load()).entries,
    ])
    expect(told).not.toMatch(/secret/)
  })

  test.each([
    [
      'none',
      undefined,
      /it asks for an API key, but \S+\/settings\.json has none \(auth\.api_key\): set its key at http/,
    ],
    ['another', 'wrong', /it rejects the API key in \S+\/settings\.json \(auth\.api_key\): set its key at http/],
  ])('whose settings have %s key is not used, and what is to be done about that is said', async (_what, key, said) => {
    await using omlx = await begin({ key: 'secret' })
    const elsewhere = await temporaryFolder()
    await using _ = elsewhere
    if (key !== undefined)
      await writeFile(join(elsewhere.dir, 'settings.json'), JSON.stringify({ auth: { api_key: key } }))
    vi.stubEnv('OMLX_BASE_PATH', elsewhere.dir)
    await using room = await ServerRoom.create(hurried)
    room.servers.start('a/b', await launchAt(omlx.port))
    const { message } = await room.settled()
    const found = await findDaemon(runtimes.omlx, omlx.port)
    expect([message, found.kind === 'missing' && found.message]).toEqual([
      expect.stringMatching(said),
      expect.stringMatching(said),
    ])
    expect(message).not.toMatch(/secret|wrong/)
    expect(await omlx.loaded()).toEqual([])
  })

  test('that does not list the folder is told to the person, with what to add', async () => {
    await using omlx = await begin({ folders: [] })
    await using room = await ServerRoom.create(hurried)
    room.servers.start('a/b', await launchAt(omlx.port))
    expect((await room.settled()).message).toBe(
      `oMLX at 127.0.0.1:${omlx.port}: it lists no model in ${apples}: add ${lent.dir} to its model folders at http://127.0.0.1:${omlx.port}/admin, and reload its models there.`,
    )
  })

  test('that has another model of that name serves neither, and both folders are named', async () => {
    await using omlx = await begin({ folders: [] })
    const other = await omlx.have('apples')
    await using room = await ServerRoom.create(hurried)
    room.servers.start('a/b', await launchAt(omlx.port))
    const { message } = await room.settled()
    expect(message).toContain(`apples is a model in ${other} there, and not the one in ${apples}: name that folder as`)
    expect(await omlx.loaded()).toEqual([])
  })

  test('calls a model as its folder is called that a link leads to, and that name goes to the gateway and to the next agent', async () => {
    await using omlx = await begin()
    await using other = await temporaryFolder()
    const link = join(other.dir, 'link')
    await symlink(apples, link)
    await using room = await ServerRoom.create(hurried)
    const launch = await launchAt(omlx.port, link)
    room.servers.start('a/b', launch)
    await room.reached('ready')
    expect([launch.content.name, room.servers.factsOf('a/b')?.engine?.model]).toEqual(['link', 'apples'])
    await room.servers.letGo()
    expect((await room.ledger.load()).entries[0]?.daemon?.model).toBe('apples')
  })

  test('is found and waited for while it loads what is pinned there', async () => {
    await using omlx = await begin({ script: { preloadMs: 500 } })
    expect((await findDaemon(runtimes.omlx, omlx.port)).kind).toBe('found')
    await using room = await ServerRoom.create(hurried)
    room.servers.start('a/b', await launchAt(omlx.port))
    expect((await room.reached('loading')).kind).toBe('loading')
    await room.reached('ready')
    expect(room.kinds()).not.toContain('exited')
  })

  test('goes on with a load that nobody waits for: the model leaves memory when it is there', async () => {
    await using omlx = await begin({ script: { loadMs: 700 } })
    await using room = await ServerRoom.create(hurried)
    room.servers.start('a/b', await launchAt(omlx.port))
    await eventually(async () => (await omlx.ask('GET', '/v1/models/status')).text.includes('"is_loading":true'))
    expect(await room.servers.stop('a/b')).toEqual({ stopped: true })
    const { text } = await omlx.ask('GET', '/v1/models/status')
    expect([await omlx.loaded(), text.includes('"is_loading":true')]).toEqual([[], false])
  })

  test('that still loads for an agent that has ended serves for the next one once the model is there', async () => {
    await using omlx = await begin({ script: { loadMs: 1_500 } })
    await using room = await ServerRoom.create(hurried)
    room.servers.start('a/b', await launchAt(omlx.port))
    await eventually(async () => (await omlx.ask('GET', '/v1/models/status')).text.includes('"is_loading":true'))
    await room.servers.letGo()
    await using next = await adoptedFrom(room)
    await eventually(() => next.servers.get('a/b')?.kind === 'loading')
    expect(await omlx.loaded()).toEqual([])
    await eventually(() => next.servers.get('a/b')?.kind === 'ready')
    expect([next.kinds.includes('exited'), await omlx.loaded()]).toEqual([false, ['apples']])
  })

  test('cuts its answers where a drain comes to its limit, and not before', async () => {
    await using omlx = await begin({ script: { tokenMs: 20 } })
    await using room = await ServerRoom.create(hurried)
    room.servers.start('a/b', await launchAt(omlx.port))
    await room.reached('ready')
    const answer = await complete(omlx.port, 'apples', { max_tokens: 1_000, stream: true })
    const began = performance.now()
    const stopped = room.servers.stop('a/b', { drainMs: 400 })
    await expect(answer.text()).rejects.toThrow()
    expect(performance.now() - began).toBeGreaterThan(350)
    expect([await stopped, await omlx.loaded()]).toEqual([{ stopped: true }, []])
  })
})

describe('what answers where oMLX should', () => {
  strangerSuite('omlx', '/health')

  /** As oMLX answers, but for what the test says. */
  type Said = Record<string, { status?: number; said?: unknown; text?: string }>
  const almost = (changed: Said) => stranger(answering(changed))
  const answering = (changed: Said): RequestListener => {
    const model = {
      id: 'apples',
      model_path: apples,
      loaded: false,
      is_loading: false,
      estimated_size: 7,
      actual_size: null,
    }
    const usual: typeof changed = {
      '/health': { said: { status: 'healthy', engine_pool: null } },
      '/api/status': { said: { version: '0.6.3' } },
      '/v1/models/status': { said: { models: [model] } },
    }
    return (request, response) => {
      const {
        status = 200,
        said,
        text = JSON.stringify(said),
      } = { ...usual, ...changed }[request.url ?? ''] ?? {
        ...{ status: 404, said: { detail: 'Not Found' } },
      }
      response.writeHead(status).end(text)
    }
  }

  test.each([
    [
      'lists its models as a page',
      { '/v1/models/status': { text: '<html></html>' } },
      /is not oMLX \(\/v1\/models\/status: status 200\)/,
    ],
    [
      'breaks at its models',
      { '/v1/models/status': { status: 500, said: { error: { message: 'Internal server error' } } } },
      /\/v1\/models\/status: Internal server error\.$/,
    ],
    [
      'lists figures that cannot be',
      { '/v1/models/status': { said: { models: [{ id: 'a', model_path: apples, loaded: true, actual_size: -1 }] } } },
      /is not oMLX/,
    ],
    [
      'computes it with others',
      {
        '/v1/models/status': {
          said: { models: [{ id: 'apples', model_path: apples, loaded: true, distributed: true }] },
        },
      },
      /runs across several machines/,
    ],
    ['is too old to load', {}, /apples could not be loaded: Not Found\.$/],
    [
      'is busy with it',
      { '/v1/models/apples/load': { status: 409, said: { error: { message: 'Model is busy' } } } },
      /apples could not be loaded: Model is busy\.$/,
    ],
    [
      'fails to load it',
      { '/v1/models/apples/load': { status: 500, text: '<h1>' } },
      /apples could not be loaded: it answered with status 500\.$/,
    ],
  ])('and %s serves nothing', async (_what, changed, said) => {
    vi.stubEnv('OMLX_BASE_PATH', lent.dir)
    await using room = await ServerRoom.create(hurried)
    room.servers.start('a/b', await launchAt(await almost(changed)))
    const { message, outOf } = await room.settled()
    expect([outOf, message]).toEqual(['start', expect.stringMatching(said)])
  })

  test('and loads for ever is given up where it is silent otherwise', async () => {
    vi.stubEnv('OMLX_BASE_PATH', lent.dir)
    const model = { id: 'apples', model_path: apples, loaded: false }
    const port = await stranger((request, response) => {
      const at = request.url ?? ''
      if (at === '/health') json({ status: 'healthy', engine_pool: {} })(request, response)
      else if (at === '/v1/models/status') json({ models: [model] })(request, response)
    })
    await using room = await ServerRoom.create(hurried)
    room.servers.start('a/b', { ...(await launchAt(port)), startupStallMs: 500 })
    expect((await room.reached('exited')).message).toBe(`oMLX at 127.0.0.1:${port} does not answer.`)
  })

  test('and loads it for somebody else is waited for, and tells its requests that wait too', async () => {
    vi.stubEnv('OMLX_BASE_PATH', lent.dir)
    const model = { id: 'apples', model_path: apples, loaded: false, is_loading: true }
    let asked = 0
    const port = await stranger((request, response) => {
      const said: Record<string, () => unknown> = {
        '/health': () => ({ status: 'loading', engine_pool: null }),
        '/api/status': () => ({ version: '0.6.3', active_requests: 2, waiting_requests: 3 }),
        '/v1/models/status': () => ({ models: [model] }),
        '/v1/models/apples/load': () => {
          asked += 1
          if (asked === 1) response.statusCode = 409
          return asked === 1 ? { error: { message: 'Model is already loading' } } : { status: 'ok' }
        },
      }
      response.end(JSON.stringify(said[request.url ?? '']?.()))
    })
    const omlx = new Omlx({ host: '127.0.0.1', port })
    const { content } = await launchAt(port)
    const { signal } = new AbortController()
    const silent = { onStep: () => undefined, onLoad: () => undefined }
    expect(await omlx.hold(content, { signal, needed: () => new Set(), ...silent })).toBe('apples')
    expect([asked, await omlx.requests(signal)]).toEqual([2, 5])
  })

  test.runIf(process.geteuid?.() === 0)('is sent nothing where it is another user, who is told of', async () => {
    const port = await freePort()
    const heard = `require('http').createServer((q, r) => console.log('asked')).listen(${port}, '127.0.0.1', () => console.log('there'))`
    const nobody = spawn(process.execPath, ['-e', heard], { uid: 65_534, stdio: ['ignore', 'pipe', 'inherit'] })
    onTestFinished(() => void nobody.kill('SIGKILL'))
    let said = ''
    nobody.stdout.on('data', (text: Buffer) => (said += text.toString()))
    await once(nobody.stdout, 'data')
    const found = await findDaemon(runtimes.omlx, port)
    expect([found.kind === 'missing' && found.message, said]).toEqual([
      `What answers at 127.0.0.1:${port} belongs to another user, and is asked nothing: stop that program, or give the port of oMLX with --omlx-port.`,
      'there\n',
    ])
  })

  test('is shown no key of oMLX', async () => {
    await using omlx = await begin({ key: 'secret' })
    const seen: unknown[] = []
    const port = await stranger((request, response) => {
      seen.push(request.headers.authorization)
      json({ detail: 'Not Found' }, 404)(request, response)
    })
    expect((await findDaemon(runtimes.omlx, port)).kind).toBe('missing')
    await using room = await ServerRoom.create(hurried)
    room.servers.start('a/b', await launchAt(port))
    await room.settled()
    expect([seen.length > 1, seen.filter((one) => one !== undefined)]).toEqual([true, []])
    expect(omlx.port).not.toBe(port)
  })

  test('is not asked at the usual port on a machine that never had an oMLX', async () => {
    vi.stubEnv('OMLX_BASE_PATH', join(lent.dir, 'nowhere'))
    const { mayRun } = runtimes.omlx
    expect([await mayRun?.(defaultOmlxPort), await mayRun?.(8_001)]).toEqual([false, true])
    vi.stubEnv('OMLX_BASE_PATH', lent.dir)
    expect(await mayRun?.(defaultOmlxPort)).toBe(true)
  })
})

test('its folder is where it looks for it itself: the variable, the folder that the app was moved to, or the usual one', async () => {
  await using home = await temporaryFolder()
  expect(omlxBasePath({}, home.dir)).toBe(join(home.dir, '.omlx'))
  const support = join(home.dir, 'Library', 'Application Support', 'oMLX')
  await mkdir(support, { recursive: true })
  await writeFile(join(support, 'base-path'), '~/elsewhere\n')
  expect(omlxBasePath({}, home.dir)).toBe(join(home.dir, 'elsewhere'))
  expect(omlxBasePath({ OMLX_BASE_PATH: '/srv/omlx/' }, home.dir)).toBe('/srv/omlx')
})

test.each([
  ['what is no JSON', '{'],
  ['a key with a line end', JSON.stringify({ auth: { api_key: 'a\nb' } })],
  ['no key', JSON.stringify({ auth: { api_key: null } })],
])('settings with %s have no key', async (_what, text) => {
  await using home = await temporaryFolder()
  await writeFile(join(home.dir, 'settings.json'), text)
  vi.stubEnv('OMLX_BASE_PATH', home.dir)
  expect(new Omlx({ host: '127.0.0.1', port: 1 }).apiKey).toBeUndefined()
})

test('a folder that a runtime of MLX must not be given is refused before anything is asked of oMLX, which is given no arguments', async () => {
  const folder = join(lent.dir, 'code')
  await writeMlxModel(folder)
  await writeFile(join(folder, 'config.json'), '{"model_type":"llama","model_file":"run.py"}')
  const asked = { executable: 'http://127.0.0.1:1', model: folder, daemonPort: 1 }
  expect((await prepareLaunch('omlx', asked)).problem?.message).toMatch(/names a program of the model's own/)
  const args = await prepareLaunch('omlx', {
    ...{ ...asked, model: apples, spec: { extraArgs: ['--kv-cache-quant', '4', '--base-path', '/'] } },
  })
  expect([args.problem, (await args.launch()).digest]).toEqual([
    undefined,
    (await (await prepareLaunch('omlx', { ...asked, model: apples })).launch()).digest,
  ])
})
