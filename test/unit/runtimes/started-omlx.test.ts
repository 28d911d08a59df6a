import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { ownDaemon } from '../../../src/agent-core/runtimes/installed.ts'
import { runtimes } from '../../../src/agent-core/runtimes/runtimes.ts'
import { StartedDaemons } from '../../../src/agent-core/runtimes/started-daemons.ts'
import { daemonAt } from '../../../src/agent-core/servers/daemons.ts'
import { eventually } from '../../support/eventually.ts'
import { freePort } from '../../support/free-port.ts'
import { writeMlxModel } from '../../support/mlx-writer.ts'
import { OmlxOfPerson, sampleOmlxPath } from '../../support/omlx.ts'
import { silentLog } from '../../support/silent-log.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { hurried, launchAt } from '../servers/daemon-suite.ts'
import { ServerRoom } from '../servers/server-room.ts'

const platform = hostPlatform()

/** A machine on which a person wants an oMLX at a port, with an agent that starts it. */
async function machine({ port: given }: { readonly port?: number } = {}) {
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(await temporaryFolder())
  vi.stubEnv('OMLX_BASE_PATH', join(folder.dir, 'nobody'))
  const stateDir = join(folder.dir, 'state')
  const port = given ?? (await freePort())
  const settings = { ollamaStart: false, ollamaPort: 0, omlxStart: true, omlxPort: port, omlxBin: sampleOmlxPath }
  const options = { platform, log: silentLog, stateDir, lookEveryMs: 50, env: process.env, settings: () => settings }
  const daemons = new StartedDaemons({ ...options, drain: () => Promise.resolve(), onChange: () => undefined })
  stack.defer(() => daemons.stop())
  expect(await daemons.start()).toEqual([])
  const own = ownDaemon(runtimes.omlx, stateDir, settings, () => daemons.runs('omlx'))
  const room = stack.use(
    await ServerRoom.create({ ...hurried, daemons: (runtime, address) => daemonAt(runtime, address, own) }),
  )
  const listener = () => eventually(async () => (await platform.portListeners(port, -1)).others[0]?.pid)
  const home = join(stateDir, 'daemons', 'omlx')
  const owned = stack.move()
  return {
    ...{ folder: folder.dir, home, port, daemons, room, listener },
    /** A folder with a model, in a folder of that name. */
    model: async (at: string) => {
      await writeMlxModel(join(folder.dir, at))
      return join(folder.dir, at)
    },
    [Symbol.asyncDispose]: async () => {
      await owned.disposeAsync()
      vi.unstubAllEnvs()
    },
  }
}

test('an oMLX that is started here has a key that no command line shows, and serves the folders that services need by links to them', async () => {
  await using there = await machine()
  const { room, home } = there
  const [one, namesake] = [await there.model('a/apples'), await there.model('b/apples')]
  const pid = await there.listener()
  room.servers.start('a/b', await launchAt('omlx', there.port, { model: one }))
  room.servers.start('c/d', await launchAt('omlx', there.port, { model: namesake }))
  await room.reached('ready')
  await room.reached('ready', { key: 'c/d' })
  const names = ['a/b', 'c/d'].map((key) => room.servers.engineOf(key)?.model ?? '')
  expect(names.toSorted()).toEqual(['apples', expect.stringMatching(/^apples-[0-9a-f]{8}$/)])
  expect((await readdir(join(home, 'models'))).toSorted()).toEqual(names.toSorted())
  const settings = join(home, 'settings.json')
  const key = room.servers.apiKeyOf('a/b') ?? ''
  expect([key.length, (await stat(settings)).mode & 0o777]).toEqual([48, 0o600])
  const { commandLine = '' } = (await platform.process(pid)) ?? {}
  expect([commandLine.includes('--base-path'), commandLine.includes(key)]).toEqual([true, false])
  expect((await fetch(`http://127.0.0.1:${there.port}/v1/models`)).status).toBe(401)

  // After a crash it has the same key, and what services need is linked again; the models themselves stay.
  process.kill(pid, 'SIGKILL')
  await room.settled()
  await eventually(async () => (await there.listener()) !== pid)
  const from = room.changes.length
  room.servers.start('a/b', await launchAt('omlx', there.port, { model: one }))
  await room.reached('ready', { from })
  expect([room.servers.apiKeyOf('a/b'), (await readdir(one)).includes('model.safetensors')]).toEqual([key, true])
})

test('it tries again what it could not load, once the service is tried again', async () => {
  await using there = await machine()
  const { room } = there
  const folder = await there.model('pears')
  const config = join(folder, 'config.json')
  const right = await readFile(config, 'utf8')
  await writeFile(config, '{"model_type":"banana"}')
  await there.listener()
  const launch = await launchAt('omlx', there.port, { model: folder })
  room.servers.start('a/b', launch)
  expect((await room.settled()).message).toMatch(/banana not supported/)
  await writeFile(config, right)
  const from = room.changes.length
  room.servers.start('a/b', launch)
  await room.reached('ready', { from })
})

test('one that a person runs at that port is asked with its own key, and gets no link and no reload', async () => {
  await using theirs = await OmlxOfPerson.start({ key: 'of-the-person' })
  await using there = await machine({ port: theirs.port })
  vi.stubEnv('OMLX_BASE_PATH', theirs.basePath)
  const { room } = there
  // One was started here before.
  await mkdir(there.home, { recursive: true })
  await writeFile(join(there.home, 'settings.json'), '{"auth":{"api_key":"of-the-agent"}}')
  const folder = await there.model('pears')
  room.servers.start('a/b', await launchAt('omlx', there.port, { model: folder }))
  expect((await room.settled()).message).toMatch(/it lists no model in .*\/pears: add/)
  expect(there.daemons.runs('omlx')).toBe(false)
  expect((await theirs.ask('GET', '/v1/models')).text).not.toContain('pears')
})
