import { once } from 'node:events'
import { chmod, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { findDaemon } from '../../../src/agent-core/runtimes/installed.ts'
import { runtimes } from '../../../src/agent-core/runtimes/runtimes.ts'
import { StartedDaemons } from '../../../src/agent-core/runtimes/started-daemons.ts'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { eventually } from '../../support/eventually.ts'
import { freePort } from '../../support/free-port.ts'
import { OllamaOfPerson } from '../../support/ollama.ts'
import { silentLog } from '../../support/silent-log.ts'
import { useOllama } from '../../support/skip.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const executable = useOllama()
const platform = hostPlatform()

const begin = async (daemons: StartedDaemons): Promise<string[]> => {
  const notices = await daemons.adopt()
  daemons.begin()
  return notices
}

/** A machine on which a person wants an Ollama at a port, and agents that come one after the other. */
async function machine({
  program = executable,
  port: given,
}: { readonly program?: string; readonly port?: number } = {}) {
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(await temporaryFolder())
  const port = given ?? (await freePort())
  const settings = {
    ...{ ollamaStart: true, ollamaPort: port, ollamaBin: program },
    ...{ omlxPort: 0, omlxStart: false, startupStallMs: 60_000 },
  }
  const drained: string[] = []
  const agents: StartedDaemons[] = []
  stack.defer(async () => {
    for (const one of agents) await one.stop()
  })
  const agent = () => {
    const daemons = new StartedDaemons({
      ...{ platform, log: silentLog, random: () => 0.9, stateDir: join(folder.dir, 'state'), lookEveryMs: 50 },
      env: { ...process.env, HOME: folder.dir },
      settings: () => settings,
      drain: async (runtime) => {
        drained.push(`${runtime} at ${(await listener()) === undefined ? 'its end' : 'work'}`)
      },
      onChange: () => undefined,
    })
    agents.push(daemons)
    return daemons
  }
  const listener = async (at = settings.ollamaPort) => (await platform.portListeners(at, -1)).others[0]?.pid
  const found = (daemons: StartedDaemons) => findDaemon(runtimes.ollama, settings.ollamaPort, daemons)
  /** The process that answers, once another than `but` does. */
  const answering = (daemons: StartedDaemons, but?: number) =>
    eventually(async () => {
      const pid = await listener()
      return (await found(daemons)).kind === 'found' && pid !== but ? pid : undefined
    })
  const why = async (daemons: StartedDaemons) => {
    const { message = 'found' } = { message: undefined, ...(await found(daemons)) }
    return message
  }
  const owned = stack.move()
  return {
    ...{ settings, drained, agent, listener, answering, why },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

test('one that a person runs is used and never ended; once it is gone one is started', async () => {
  await using theirs = await OllamaOfPerson.start(executable)
  await using there = await machine({ port: theirs.port })
  const daemons = there.agent()
  await begin(daemons)
  const pid = await there.answering(daemons)
  there.settings.ollamaStart = false
  daemons.settingsChanged()
  there.settings.ollamaStart = true
  daemons.settingsChanged()
  await daemons.stop()
  expect([await there.listener(), there.drained]).toEqual([pid, []])
  const next = there.agent()
  await begin(next)
  await theirs.stop()
  expect(await there.answering(next, pid)).not.toBe(pid)
})

test('one that an earlier agent started at another port ends after its models, and is started where it is wanted now', async () => {
  await using there = await machine()
  const first = there.agent()
  await begin(first)
  const pid = await there.answering(first)
  await first.letGo()
  const next = there.agent()
  const before = there.settings.ollamaPort
  there.settings.ollamaPort = await freePort()
  await begin(next)
  expect(await there.answering(next)).not.toBe(pid)
  expect([await there.listener(before), there.drained.length]).toEqual([undefined, 1])
})

test('nothing is loaded into one that is being ended', async () => {
  await using there = await machine()
  const daemons = there.agent()
  await begin(daemons)
  await there.answering(daemons)
  const leaving: string[] = []
  there.settings.ollamaStart = false
  daemons.settingsChanged()
  await eventually(async () => {
    leaving.push(await there.why(daemons))
    return (await there.listener()) === undefined
  })
  expect(leaving[0]).toBe('Ollama is being stopped: --ollama-start was switched off.')
})

test.each([
  ['is not there', '/nowhere/ollama', /^\/nowhere\/ollama was given as ollama \(--ollama-bin\), but there is no such/],
  ['ends at once', '#!/bin/sh\necho broken >&2\nexit 3', /ollama.* exited with code 3.*broken/],
])('a program that %s is one sentence, for who waits and for everybody', async (_what, program, told) => {
  await using folder = await temporaryFolder()
  const file = program.startsWith('#!') ? join(folder.dir, 'ollama') : program
  if (file !== program) {
    await writeFile(file, program)
    await chmod(file, 0o755)
  }
  await using there = await machine({ program: file })
  const daemons = there.agent()
  await begin(daemons)
  const [notice] = await eventually(() => (daemons.notices().length > 0 ? daemons.notices() : undefined))
  expect(notice).toMatch(told)
  expect(await there.why(daemons)).toBe(notice)
})

test('one that ends at once is started again only after a wait', async () => {
  await using folder = await temporaryFolder()
  const [file, starts] = [join(folder.dir, 'ollama'), join(folder.dir, 'starts')]
  await writeFile(file, `#!/bin/sh\necho >> '${starts}'\nexit 3\n`, { mode: 0o755 })
  await using there = await machine({ program: file })
  const daemons = there.agent()
  const begun = performance.now()
  await begin(daemons)
  await eventually(async () => (await readFile(starts, 'utf8').catch(() => '')).length >= 2)
  expect(performance.now() - begun).toBeGreaterThan(400)
})

test('none is started where its port says that there is none', async () => {
  await using there = await machine({ port: 0 })
  const daemons = there.agent()
  await begin(daemons)
  expect([daemons.whyAbsent('ollama'), daemons.notices()]).toEqual([undefined, []])
})

test('where another program has the port nothing is started, with one sentence', async () => {
  const server = createServer((_request, response) => void response.end('<html>')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => server.close().closeAllConnections())
  const address = server.address()
  if (address === null || typeof address === 'string') throw new TypeError('no port')
  await using there = await machine({ port: address.port })
  const daemons = there.agent()
  await begin(daemons)
  const [notice] = await eventually(() => (daemons.notices().length > 0 ? daemons.notices() : undefined))
  expect(notice).toMatch(/is not Ollama .*: stop that program, or give the port of Ollama with --ollama-port/)
  expect(await there.listener()).toBe(process.pid)
})
