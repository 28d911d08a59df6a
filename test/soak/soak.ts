import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import fc from 'fast-check'
import { AgentWorld } from '../support/agent-world.ts'
import { ApiServer } from '../support/control-plane/control-plane.ts'
import { eventually } from '../support/eventually.ts'
import { FaultProxy } from '../support/fault-proxy.ts'
import { Blockage } from './blockage.ts'
import { Disk } from './disk.ts'
import { concerned, services, type AgentName, type Fault, type ServiceName } from './faults.ts'
import { Injector } from './injector.ts'
import { LocalClient } from './local-client.ts'
import { Oracle } from './oracle.ts'
import { Processes } from './processes.ts'
import { Rest } from './rest.ts'
import { SoakAgent } from './soak-agent.ts'
import { SoakDaemon } from './soak-daemon.ts'
import { lentFolder, SoakObjects } from './soak-objects.ts'
import { Touches } from './touches.ts'

/** What was done shows this long in a server's end, by the time of an agent that can act and has much else to do … */
const endsAftermathMs = 60_000
/** … and in a second server beside the first. */
const changesAftermathMs = 20_000
const shortestWatchMs = 20_000
const longestWatchMs = 60_000
/** Below the ports that the system hands out; few, so that they are taken again soon. */
const firstPort = 20_000
const portsEach = 8
const firstClientPort = 19_000
const portBlocks = 500

export interface SoakOptions {
  readonly seed: number
  readonly rounds: readonly (readonly Fault[])[]
  /** Of logs; made where it is missing. */
  readonly folder: string
  readonly say: (line: string) => void
}

export interface SoakResult {
  /** In the round that was the last. */
  readonly broken: readonly string[]
  /** How many rounds were gone through, that one included. */
  readonly rounds: number
  /** Faults that this machine does not allow. */
  readonly skipped: string | undefined
  readonly looks: Oracle['looks']
  /** Requests through the client proxy. */
  readonly local: LocalClient['counts']
}

/** Round after round of faults against agents on a real API server, until something is broken. */
export async function soak({ seed, rounds, folder, say }: SoakOptions): Promise<SoakResult> {
  await using made = new AsyncDisposableStack()
  await mkdir(folder, { recursive: true })
  const api = made.use(await ApiServer.start())
  // Where an agent looks that was told of no other.
  const world = made.use(await AgentWorld.open(api.connection, { controller: false, namespace: 'default' }))
  await eventually(() => world.admin.get({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } }))
  await world.startController(world.namespace, { allowedHostPathRoots: [lentFolder(world.folder)] })
  const oracle: { now?: Oracle } = {}
  const lives = fc.sample(fc.integer({ min: shortestWatchMs, max: longestWatchMs }), { seed, numRuns: 1_000 })
  const proxy = made.use(
    await FaultProxy.start({
      connection: api.connection,
      watchLifeMs: () => {
        const next = lives.shift() ?? longestWatchMs
        lives.push(next)
        return next
      },
      onWrite: ({ resource, name }) => {
        const service = services.find((one) => one === name)
        if (resource === 'inferenceservices/status' && service) oracle.now?.statusWritten(service)
      },
    }),
  )
  const objects = made.use(await SoakObjects.open(world))
  const daemons = { first: made.use(await SoakDaemon.start()), second: made.use(await SoakDaemon.start()) }
  const clientPort = firstClientPort + (process.pid % portBlocks)
  const agentOf = (name: AgentName, from: number) =>
    new SoakAgent({
      ...{ name, folder: world.folder, connection: proxy.connection, hubEndpoint: objects.hubEndpoint },
      daemonPort: daemons[name].port,
      ...{ ports: [from, from + portsEach - 1], logFile: join(folder, `${name}.log`) },
      clientPort: name === 'first' ? clientPort : 0,
    })
  const block = firstPort + (process.pid % portBlocks) * 2 * portsEach
  const agents = { first: agentOf('first', block), second: agentOf('second', block + portsEach) }
  const disk = await Disk.mount(agents.first.stateDir)
  if (typeof disk !== 'string') made.use(disk)
  made.use(agents.first)
  made.use(agents.second)

  const obstacles = { api: new Blockage(), slices: new Blockage(), files: new Blockage() }
  const touches = new Touches({ aftermathMs: endsAftermathMs })
  const changes = new Touches({ aftermathMs: changesAftermathMs })
  const broken: string[] = []
  const onBroken = (sentence: string) => {
    broken.push(sentence)
    say(`  BROKEN at ${new Date().toISOString()}: ${sentence}`)
  }
  const watching = new Oracle({
    ...{
      connection: api.connection,
      namespace: world.namespace,
      processes: new Processes(world.folder),
      daemons,
      agents,
    },
    ...{ obstacles: Object.values(obstacles), touches, changes, onBroken },
  })
  oracle.now = made.use(watching)
  await watching.start()
  const local = made.use(
    new LocalClient({
      port: clientPort,
      isServing: () => {
        const ready = watching.readyOf('steady')
        return ready?.holder === 'first' && watching.servers.some(({ port, listens }) => listens && port === ready.port)
      },
      workedMs: () => watching.workedMs,
      onBroken,
    }),
  )
  const strayEndpoints = new Set<ServiceName>()
  const rest = new Rest({ world, objects, agents, daemons, oracle: watching, strayEndpoints })
  const elsewhere = await world.createNamespace()
  const injector = new Injector({
    elsewhere,
    ...{ api, proxy, objects, agents, daemons, obstacles, touches, changes, strayEndpoints, local, clientPort },
    ...{ servers: () => watching.servers, unclaimed: () => watching.unclaimed, workedMs: () => watching.workedMs },
    ...{ disk: typeof disk === 'string' ? undefined : disk },
  })
  const skipped = typeof disk === 'string' ? disk : undefined

  touches.begin(services)
  await objects.applyAll()
  agents.first.start()
  broken.push(...(await rest.reached()))
  touches.end(services, watching.workedMs)
  touches.settle()
  let done = 0
  for (const faults of rounds) {
    if (broken.length > 0) break
    done += 1
    say(`round ${done} of ${rounds.length}: ${faults.length} faults`)
    broken.push(...(await play(faults, { injector, oracle: watching, say })))
    broken.push(...(await rest.reached()), ...agents.first.unexpected, ...agents.second.unexpected)
    if (broken.length === 0) touches.settle()
  }
  if (broken.length === 0) broken.push(...(await leave()))
  return { broken, rounds: done, skipped, looks: watching.looks, local: local.counts }

  async function leave(): Promise<string[]> {
    touches.begin(services)
    for (const name of services) await objects.deleteService(name)
    const left = await rest.emptied()
    await local.disturb(() => agents.first.end('SIGTERM'))
    return left
  }
}

/** All faults of a round, each at its time. @returns what could not be done or undone. */
async function play(
  faults: readonly Fault[],
  { injector, oracle, say }: { injector: Injector; oracle: Oracle; say: SoakOptions['say'] },
): Promise<string[]> {
  const failures: string[] = []
  const running: Promise<void>[] = []
  for (const fault of faults) {
    await delay(fault.afterMs)
    say(`  ${new Date().toISOString()} ${JSON.stringify(fault.what)}`)
    for (const name of concerned(fault)) oracle.happened(name)
    const over = injector.inject(fault).catch((error: unknown) => {
      failures.push(`${JSON.stringify(fault.what)}: ${error instanceof Error ? error.message : String(error)}`)
    })
    running.push(over)
  }
  await Promise.all(running)
  return failures
}
