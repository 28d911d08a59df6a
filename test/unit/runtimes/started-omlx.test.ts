import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { StartedDaemons } from '../../../src/agent-core/runtimes/started-daemons.ts'
import { daemonAt } from '../../../src/agent-core/servers/daemons.ts'
import { eventually } from '../../support/eventually.ts'
import { freePort } from '../../support/free-port.ts'
import { writeMlxModel } from '../../support/mlx-writer.ts'
import { OmlxOfPerson, type OmlxScript, sampleOmlxPath } from '../../support/omlx.ts'
import { silentLog } from '../../support/silent-log.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { hurried, launchAt as launchIn } from '../servers/daemon-suite.ts'
import { ServerRoom } from '../servers/server-room.ts'

const platform = hostPlatform()

interface MachineOptions {
  readonly port?: number
  readonly script?: OmlxScript
  readonly startupStallMs?: number
}

/** A program that takes the arguments of `omlx` and behaves so. */
async function scripted(folder: string, script: OmlxScript): Promise<string> {
  const program = join(folder, 'omlx')
  const sample = `SAMPLE_SCRIPT='${JSON.stringify(script)}' exec node '${dirname(sampleOmlxPath)}/sample-omlx.cjs' "$@"`
  await writeFile(program, `#!/bin/sh\n${sample}\n`, { mode: 0o755 })
  return program
}

/** A machine on which a person wants an oMLX at a port, with an agent that starts it. */
async function machine({ port: given, script, startupStallMs = 60_000 }: MachineOptions = {}) {
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(await temporaryFolder())
  vi.stubEnv('OMLX_BASE_PATH', join(folder.dir, 'nobody'))
  const stateDir = join(folder.dir, 'state')
  const port = given ?? (await freePort())
  const settings = {
    ...{ ollamaStart: false, ollamaPort: 0, omlxStart: true, omlxPort: port, startupStallMs },
    omlxBin: script ? await scripted(folder.dir, script) : sampleOmlxPath,
  }
  const daemons = new StartedDaemons({
    ...{ platform, log: silentLog, stateDir, lookEveryMs: 50, env: process.env, settings: () => settings },
    random: () => 0,
    drain: async () => void (await room.servers.stopAll()),
    onChange: () => undefined,
  })
  stack.defer(() => daemons.stop())
  expect(await daemons.adopt()).toEqual([])
  daemons.begin()
  const room: ServerRoom = stack.use(
    await ServerRoom.create({
      ...{ ...hurried, daemons: (runtime, address) => daemonAt(runtime, address, daemons.homeOf(runtime)) },
    }),
  )
  const listener = async () => (await platform.portListeners(port, -1)).others[0]?.pid
  const home = join(stateDir, 'daemons', 'omlx')
  const owned = stack.move()
  return {
    ...{ home, port, daemons, room },
    /** The process that answers, once another than `but` does. */
    answering: (but?: number) =>
      eventually(async () => {
        const pid = await listener()
        return pid === but ? undefined : pid
      }),
    commandLine: async () => (await platform.process((await listener()) ?? 0))?.commandLine ?? '',
    launch: (model: string) => launchIn('omlx', port, { model }),
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
  const pid = await there.answering()
  room.servers.start('a/b', await there.launch(one))
  room.servers.start('c/d', await there.launch(namesake))
  await room.reached('ready')
  await room.reached('ready', { key: 'c/d' })
  const names = ['a/b', 'c/d'].map((key) => room.servers.factsOf(key)?.engine?.model ?? '')
  expect(names.toSorted()).toEqual(['apples', expect.stringMatching(/^apples-[0-9a-f]{8}$/)])
  expect((await readdir(join(home, 'models'))).toSorted()).toEqual(names.toSorted())
  const settings = join(home, 'settings.json')
  const key = room.servers.apiKeyOf('a/b') ?? ''
  expect([key.length, (await stat(settings)).mode & 0o777]).toEqual([48, 0o600])
  const commandLine = await there.commandLine()
  expect([commandLine.includes('--base-path'), commandLine.includes(key)]).toEqual([true, false])
  expect((await fetch(`http://127.0.0.1:${there.port}/v1/models`)).status).toBe(401)

  // After a crash it has the same key, and what services need is linked again; the models themselves stay.
  process.kill(pid, 'SIGKILL')
  await room.settled()
  await there.answering(pid)
  const from = room.changes.length
  room.servers.start('a/b', await there.launch(one))
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
  await there.answering()
  const launch = await there.launch(folder)
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
  room.servers.start('a/b', await there.launch(folder))
  expect((await room.settled()).message).toMatch(/it lists no model in .*\/pears: add/)
  expect(there.daemons.homeOf('omlx')).toBeUndefined()
  expect((await theirs.ask('GET', '/v1/models')).text).not.toContain('pears')
})

test('one that does not answer within its limit is ended by SIGTERM, and told with the limit', async () => {
  await using there = await machine({ script: { startMs: 60_000 }, startupStallMs: 1_000 })
  const [notice] = await eventually(() => {
    const notices = there.daemons.notices()
    return notices.length > 0 ? notices : undefined
  })
  expect(notice).toMatch(/no progress .*1 s.*--startup-timeout/)
})

test('a model that it could not list at first is linked once', async () => {
  await using there = await machine()
  const { room, home } = there
  const folder = await there.model('apples')
  await there.answering()
  const fault = join(home, 'admin-fails')
  await writeFile(fault, '')
  room.servers.start('a/b', await there.launch(folder))
  expect((await room.settled()).message).toMatch(/its models could not be listed again: Reload failed\.$/)
  const again = room.changes.length
  room.servers.start('a/b', await there.launch(folder))
  await room.reached('exited', { from: again, where: ({ settled }) => settled })
  await rm(fault)
  const from = room.changes.length
  room.servers.start('a/b', await there.launch(folder))
  await room.reached('ready', { from })
  expect(await readdir(join(home, 'models'))).toEqual(['apples'])
})
