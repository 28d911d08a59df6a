import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { findDaemon } from '../../../src/agent-core/runtimes/installed.ts'
import { runtimes } from '../../../src/agent-core/runtimes/runtimes.ts'
import { adoptServers } from '../../../src/agent-core/servers/adoption.ts'
import type { DaemonRuntimeName } from '../../../src/agent-core/servers/daemon.ts'
import { isOfDaemon, type DaemonLaunch } from '../../../src/agent-core/servers/launch.ts'
import { Ledger } from '../../../src/agent-core/servers/ledger.ts'
import { livenessTimings } from '../../../src/agent-core/servers/liveness.ts'
import { Servers } from '../../../src/agent-core/servers/servers.ts'
import { eventually } from '../../support/eventually.ts'
import { freePort } from '../../support/free-port.ts'
import { silentLog } from '../../support/silent-log.ts'
import { prepareLaunch } from './prepared-launch.ts'
import { platform, ServerRoom } from './server-room.ts'

/** Looked at as often as within minutes. */
export const impatient = {
  ...livenessTimings,
  ...{ everyMs: 100, answerWithinMs: 200, followUpMs: 50, misses: 1, hungMisses: 2 },
}
export const hurried = { liveness: impatient }

/** A daemon that a person runs. */
export interface DaemonOfPerson extends AsyncDisposable {
  readonly port: number
  start(): Promise<void>
  stop(): Promise<void>
  suspend(): void
  resume(): void
  /** Names of the models in memory. */
  loaded(): Promise<string[]>
}

export interface DaemonKind<D extends DaemonOfPerson> {
  readonly runtime: DaemonRuntimeName
  readonly begin: () => Promise<D>
  /** A model that it can load, and one that it cannot. */
  readonly model: (daemon: D) => Promise<string>
  readonly badModel: (daemon: D) => Promise<string>
  /** What it says of the latter. */
  readonly badModelSaid: RegExp
  /** As it shows the name of what is in memory. */
  readonly shown: (name: string) => string
  /** Names of the models in it that were made for a service. */
  readonly made: (daemon: D) => Promise<string[]>
  /** Somebody else takes it out of memory. */
  readonly drop: (daemon: D, name: string) => Promise<unknown>
  readonly version: RegExp
}

interface Changes {
  readonly model: string
  readonly revision?: string
  readonly spec?: Readonly<Record<string, unknown>>
}

export async function launchAt(
  runtime: DaemonRuntimeName,
  port: number,
  { spec = { contextSize: 128 }, ...changes }: Changes,
): Promise<DaemonLaunch> {
  const asked = { executable: `http://127.0.0.1:${port}`, daemonPort: port, spec, ...changes }
  const { problem, launch } = await prepareLaunch(runtime, asked)
  expect(problem).toBeUndefined()
  const made = await launch()
  if (!isOfDaemon(made)) throw new TypeError(`${runtime} is a daemon`)
  return made
}

/** Asks the daemon itself. */
export const complete = (
  port: number,
  model: string,
  more: object = {},
  headers: Record<string, string> = {},
  signal?: AbortSignal,
) =>
  fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    ...(signal && { signal }),
    ...{ method: 'POST', headers: { 'content-type': 'application/json', connection: 'close', ...headers } },
    body: JSON.stringify({ model, max_tokens: 2, messages: [{ role: 'user', content: 'hello' }], ...more }),
  })

/** What the next agent makes of what is left in the room, with the kinds of the states that it tells. */
export async function adoptedFrom({ folder: stateDir }: ServerRoom) {
  const ledger = new Ledger({ file: join(stateDir, 'ledger.json'), platform, log: silentLog })
  const servers = new Servers({ platform, ledger, stateDir, log: silentLog, liveness: impatient })
  const kinds: string[] = []
  servers.onChange((_key, { kind }) => kinds.push(kind))
  await adoptServers({ ledger, servers, platform, log: silentLog, stateDir, rules: () => ({}) })
  return { servers, kinds, [Symbol.asyncDispose]: () => servers[Symbol.asyncDispose]() }
}

/** What every daemon does for a service, whatever it is. */
export function daemonSuite<D extends DaemonOfPerson>(kind: DaemonKind<D>): void {
  const { runtime, begin } = kind
  const { product } = runtimes[runtime]
  const launchOf = async (daemon: D) => launchAt(runtime, daemon.port, { model: await kind.model(daemon) })

  /** One that has a model in memory, for one service. */
  async function serving() {
    await using stack = new AsyncDisposableStack()
    const daemon = stack.use(await begin())
    const room = stack.use(await ServerRoom.create(hurried))
    const launch = await launchOf(daemon)
    room.servers.start('a/b', launch)
    const { port } = await room.reached('ready')
    const owned = stack.move()
    return { daemon, room, launch, port, [Symbol.asyncDispose]: () => owned.disposeAsync() }
  }

  test('finishes the answer that it gives before a model leaves its memory', async () => {
    await using there = await serving()
    const { daemon, room, launch } = there
    const answer = await complete(daemon.port, launch.content.name, { max_tokens: 40, stream: true })
    const stopped = room.servers.stop('a/b')
    expect((await answer.text()).trimEnd().endsWith('data: [DONE]')).toBe(true)
    expect([await stopped, await daemon.loaded()]).toEqual([{ stopped: true }, []])
  })

  test('serves two services with one model from one place, and only the last of them unloads it', async () => {
    await using daemon = await begin()
    await using room = await ServerRoom.create(hurried)
    const launch = await launchOf(daemon)
    room.servers.start('a/b', launch)
    room.servers.start('c/d', launch)
    const [one, other] = [await room.reached('ready'), await room.reached('ready', { key: 'c/d' })]
    const shown = kind.shown(launch.content.name)
    expect([one.port === other.port, await daemon.loaded()]).toEqual([false, [shown]])
    await room.servers.stop('a/b')
    expect((await complete(daemon.port, launch.content.name)).status).toBe(200)
    expect(await daemon.loaded()).toEqual([shown])
    await room.servers.stop('c/d')
    expect([await daemon.loaded(), await kind.made(daemon)]).toEqual([[], []])
  })

  test('has nothing of two services with one model that are stopped at the same time', async () => {
    await using daemon = await begin()
    await using room = await ServerRoom.create(hurried)
    const launch = await launchOf(daemon)
    for (const key of ['a/b', 'c/d']) {
      room.servers.start(key, launch)
      await room.reached('ready', { key })
    }
    const stopped = [...(await room.servers.stopAll({ drainMs: 0 })).values()]
    expect([stopped, await daemon.loaded(), await kind.made(daemon)]).toEqual([
      [{ stopped: true }, { stopped: true }],
      ...[[], []],
    ])
  })

  test('has nothing of two services with one model of which the second is stopped in the moment in which the first leaves it to it', async () => {
    await using there = await serving()
    const { daemon, room, launch } = there
    room.servers.start('c/d', launch)
    await room.reached('ready', { key: 'c/d' })
    const last = Promise.withResolvers<unknown>()
    room.servers.onChange((key, state) => {
      if (key === 'a/b' && state.kind === 'exited' && !state.settled)
        last.resolve(room.servers.stop('c/d', { drainMs: 0, graceMs: 2_000 }))
    })
    await room.servers.stop('a/b', { drainMs: 0 })
    expect([await last.promise, await daemon.loaded(), await kind.made(daemon)]).toEqual([{ stopped: true }, [], []])
  })

  test('is left alone by an agent that ends, and the next one takes its model up where it is', async () => {
    await using there = await serving()
    const { daemon, room, launch, port } = there
    await room.servers.letGo()
    expect(await daemon.loaded()).toEqual([kind.shown(launch.content.name)])

    await using agent = await adoptedFrom(room)
    const next = agent.servers
    expect(next.get('a/b')).toMatchObject({ kind: 'starting', unasked: true, port })
    await eventually(() => next.get('a/b')?.kind === 'ready')
    expect([next.factsOf('a/b')?.digest, next.runtimeOf('a/b'), next.get('a/b')]).toMatchObject([
      launch.digest,
      runtime,
      { port },
    ])
    await next.stop('a/b')
    expect([await daemon.loaded(), await kind.made(daemon)]).toEqual([[], []])
  })

  test('tells by what it holds that a model was dropped: it ends at once as one that failed, and starts again', async () => {
    await using there = await serving()
    const { daemon, room, launch } = there
    await kind.drop(daemon, launch.content.name)
    const { message, outOf, cause } = await room.settled()
    expect([outOf, cause]).toEqual(['serving', 'itself'])
    expect(message).toMatch(new RegExp(String.raw`^${product} at 127\.0\.0\.1:\d+ no longer holds it in memory`))
    const from = room.changes.length
    room.servers.start('a/b', launch)
    await room.reached('ready', { from })
    expect((await complete(daemon.port, launch.content.name)).status).toBe(200)
  })

  test('is asked itself whether a model answers, as after a sleep: nobody but the gateway listens at the port of its service', async () => {
    await using daemon = await begin()
    await using room = await ServerRoom.create(hurried)
    const launch = await launchOf(daemon)
    const answers = () => room.servers.answers('a/b', 5_000, AbortSignal.timeout(10_000))
    expect(answers()).toBeUndefined()
    room.servers.start('a/b', launch)
    await room.reached('ready')
    expect(await answers()).toEqual({ kind: 'answered', status: 200 })
    await daemon.stop()
    expect(await answers()).toMatchObject({ kind: 'silent' })
    await room.settled()
  })

  test('whose model ends while it is asked to stop tells one end', async () => {
    await using there = await serving()
    const { daemon, room, launch } = there
    const stops: Promise<unknown>[] = []
    room.servers.onChange((key, state) => {
      if (state.kind === 'exited' && !state.settled) stops.push(room.servers.stop(key))
    })
    await kind.drop(daemon, launch.content.name)
    expect((await room.settled()).cause).toBe('itself')
    expect([await Promise.all(stops), room.kinds().slice(-2)]).toEqual([[{ stopped: true }], ['exited', 'settled']])
  })

  test('that is gone, or back without what it had in memory, is told so, and the next start heals it; one that hangs may have its model, which serves on when it answers again', async () => {
    await using there = await serving()
    const { daemon, room, launch } = there
    await daemon.stop()
    expect((await room.settled()).message).toBe(
      `Nothing is listening at 127.0.0.1:${daemon.port}: ${product} is not running.`,
    )
    let from = room.changes.length
    room.servers.start('a/b', launch)
    expect(await room.reached('exited', { from, where: ({ settled }) => settled })).toMatchObject({
      ...{ outOf: 'start', failures: 2 },
    })

    await daemon.start()
    expect(await daemon.loaded()).toEqual([])
    from = room.changes.length
    room.servers.start('a/b', launch)
    await room.reached('ready', { from })

    daemon.suspend()
    const hanging = await room.reached('ready', { from, where: ({ healthy }) => !healthy })
    expect(hanging.trouble).toBe('unknown')
    from = room.changes.length
    daemon.resume()
    expect(await room.reached('ready', { from })).toMatchObject({ healthy: true, load: hanging.load })
    expect(room.kinds().slice(from)).toEqual(['ready'])
  })

  test('that cannot load a model says why', async () => {
    await using daemon = await begin()
    await using room = await ServerRoom.create(hurried)
    room.servers.start('a/b', await launchAt(runtime, daemon.port, { model: await kind.badModel(daemon) }))
    const { message, outOf } = await room.settled()
    expect(await kind.made(daemon)).toEqual([])
    expect([outOf, message]).toEqual(['start', expect.stringMatching(kind.badModelSaid)])
  })

  test('is found with its version where it listens', async () => {
    await using daemon = await begin()
    const found = await findDaemon(runtimes[runtime], daemon.port)
    expect(found.kind === 'found' && found.version).toMatch(kind.version)
  })
}

/** Another program in its place. */
export async function stranger(answer: RequestListener): Promise<number> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => server.close().closeAllConnections())
  return (server.address() as AddressInfo).port
}

export const json =
  (value: unknown, status = 200): RequestListener =>
  (_request, response) => {
    response.writeHead(status).end(JSON.stringify(value))
  }

/** `asked`: the path by which a daemon is told from others. */
export function strangerSuite(runtime: DaemonRuntimeName, asked: string): void {
  const { product, portFlag } = runtimes[runtime]

  test('may be nobody, another program, broken or silent: each is one sentence that says what to do', async () => {
    const said = async (port: number) => {
      const found = await findDaemon(runtimes[runtime], port)
      return found.kind === 'missing' ? found.message : 'found'
    }
    const like = (text: string) => expect.stringMatching(new RegExp(`^${text}`)) as string
    expect(await said(await freePort())).toEqual(
      like(String.raw`${product} does not run at 127\.0\.0\.1:\d+: open the ${product} app\b`),
    )
    expect(await said(0)).toContain(`${portFlag} 0`)
    const page = await stranger((_request, response) => void response.end('<html>Ollama is running</html>'))
    const other = String.raw`What answers at \S+ is not ${product} \(${asked}: status `
    expect(await said(page)).toEqual(
      like(`${other}200\\): stop that program, or give the port of ${product} with ${portFlag}`),
    )
    const broken = await stranger((_request, response) => void response.writeHead(500).end('<h1>500</h1>'))
    expect(await said(broken)).toEqual(like(`${other}500`))
    expect(await said(await stranger(json({ version: 7, status: 7 })))).toEqual(like(other))
    expect(await said(await stranger((request) => void request.socket.destroy()))).toEqual(
      like(`${product} at .* broke the connection`),
    )
    expect(await said(await stranger(() => undefined))).toEqual(like(`${product} at .* does not answer\\.$`))
  })
}
