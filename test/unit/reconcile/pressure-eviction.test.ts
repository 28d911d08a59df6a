import { createServer, type RequestListener, type Server } from 'node:http'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { splitKey } from '../../../src/agent-core/util/object-key.ts'
import { comeBackTimes, evictionRules } from '../../../src/agent-core/memory/eviction.ts'
import { hysteresis } from '../../../src/agent-core/memory/watchdog.ts'
import { Memory, type MeasuredServer } from '../../../src/agent-core/memory/memory.ts'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { Poller } from '../../../src/agent-core/servers/poller.ts'
import { UnloadReasons } from '../../../src/agent-core/reconcile/unload-reasons.ts'
import type { ServiceReport } from '../../../src/agent-core/reconcile/service-report.ts'
import { tellingOf, type Transition } from '../../../src/agent-core/reconcile/transitions.ts'
import { PressureEviction } from '../../../src/agent-core/reconcile/pressure-eviction.ts'
import { eventually } from '../../support/eventually.ts'
import { silentLog } from '../../support/silent-log.ts'
import { StatedMemory } from '../../support/stated-memory.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const comeBackMs = 1_000
const clusterUrl = 'https://cluster.test'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let machine: StatedMemory
/** What a server is measured by: this process. */
let groupId: number
let memory: Memory
let unloadReasons: UnloadReasons
let evictions: PressureEviction
let servers: MeasuredServer[]
let reports: Map<string, ServiceReport>
let now: number
let pollers: Map<string, Poller>
let listening: Server[]
let told: string[]
/** Of the history, in order. */
let sentences: string[]
let events: string[]
let evicted: number
/** Decisions against an eviction. */
let skips: number
let warnings: string[]

beforeEach(async () => {
  folder = await temporaryFolder()
  const host = hostPlatform()
  const self = await host.process(process.pid)
  if (!self) throw new Error('This process is not found.')
  groupId = self.groupId
  // To look at every process takes long where many run, and these tests look often.
  machine = new StatedMemory(
    Object.assign(host, {
      processes: () => Promise.resolve([self]),
      biggestProcesses: () => Promise.resolve([]),
    }),
  )
  servers = []
  reports = new Map()
  pollers = new Map()
  listening = []
  told = []
  sentences = []
  events = []
  evicted = 0
  skips = 0
  warnings = []
  now = 0
  memory = new Memory({
    platform: machine.platform,
    settings: () => ({ fraction: 0, budgetBytes: undefined, enforcement: 'enforce' }),
    servers: () => servers,
    log: silentLog,
    now: () => now,
  })
  unloadReasons = await UnloadReasons.open({ stateDir: folder.dir, log: silentLog })
  evictions = new PressureEviction({
    memory,
    unloadReasons,
    narrator: { tell },
    servers: () => [...pollers].map(([key, poller]) => ({ key, look: (how) => poller.look(how) })),
    session: () => ({
      cluster: { api: { context: { server: clusterUrl } } },
      reconciler: {
        report: (key) => known().find((report) => report.key === key),
        reports: known,
        enqueue: () => undefined,
      },
    }),
    isEnabled: () => true,
    ...{ share: 0, comeBackMs },
    log: { ...silentLog, warn: (message) => warnings.push(message) },
    onEvicted: () => void (evicted += 1),
    onSkipped: () => void (skips += 1),
    now: () => now,
  })
})
afterEach(async () => {
  evictions[Symbol.dispose]()
  await unloadReasons.flush()
  await memory[Symbol.asyncDispose]()
  for (const server of listening) server.close()
  await folder[Symbol.asyncDispose]()
})

/** Looks at memory until this has happened. */
const untilTold = (what: string) =>
  eventually(
    async () => {
      await memory.look()
      return told.some((one) => one.startsWith(what))
    },
    { what },
  )

function tell(key: string, transition: Transition): void {
  const { history, event } = tellingOf(transition)
  if (history) {
    told.push(`${history.kind} ${splitKey(key).name}`)
    sentences.push(history.message)
  }
  if (event) events.push(`${event.reason} ${key}`)
}

const known = () => [...reports.values()].map((report) => ({ ...report, unloadReason: unloadReasons.of(report.uid) }))

const uidOf = (name: string): string => `uid of ${name}`
const messageOf = (name: string): string => unloadReasons.of(uidOf(name))?.message ?? ''
const isAway = (name: string) => unloadReasons.of(uidOf(name)) !== undefined

function serviceIs(name: string, more: object): void {
  const facts = { key: `ns/${name}`, namespace: 'ns', name, uid: uidOf(name), plan: { state: 'stopped' } }
  const report = { ...facts, server: undefined, retiring: undefined, isProtected: false, ...more }
  reports.set(facts.key, report as unknown as ServiceReport)
}

/** It has memory, and is not ready yet unless told otherwise. */
function isLoaded(
  name: string,
  server: { kind?: string; port?: number; healthy?: boolean } = { kind: 'starting' },
): void {
  const { port } = server
  const where = { sleepsWhenIdle: false, platform: hostPlatform(), log: silentLog, now: () => now }
  if (port !== undefined) pollers.set(`ns/${name}`, new Poller({ ...where, port, onReading: () => undefined }))
  serviceIs(name, { server: { pid: groupId, ...server }, plan: { state: 'ready' } })
  servers.push({ key: `ns/${name}`, groupId, isLoading: false })
}

/** Long enough for an eviction. */
async function memoryIsCritical(): Promise<void> {
  machine.kernelLevel = 'critical'
  await memory.look()
  now += evictionRules.settleMs
}

/** Long enough for the level to go down. */
async function memoryCalmsDownTo(level: 'normal' | 'warning'): Promise<void> {
  machine.kernelLevel = level
  await memory.look()
  now += hysteresis.waitMs
  await memory.look()
}

test('one that came back and waits does not keep others from coming back', async () => {
  for (const [at, name] of ['first', 'second'].entries()) {
    const since = new Date(at).toISOString()
    const target = { uid: uidOf(name), namespace: 'ns', name, cluster: clusterUrl }
    unloadReasons.unload(target, { kind: 'evicted', since, message: 'Evicted.' })
    serviceIs(name, {})
  }
  await memory.start()
  now += 60_000
  await untilTold('broughtBack first')
  serviceIs('first', { plan: { state: 'starting' } })
  now += 60_000
  await memory.look()
  await memory.look()
  expect(isAway('second')).toBe(true)
  serviceIs('first', { plan: { state: 'waiting' } })
  await untilTold('broughtBack second')
})

test('of equal ones the one that holds most goes first, and a mapped model holds no less than its estimate', async () => {
  for (const name of ['first', 'second']) isLoaded(name)
  Object.assign(machine.platform, { name: 'darwin' })
  memory.adopt({ key: 'ns/second', needBytes: 1024 ** 4, mappedBytes: 1024 ** 4, priority: 'normal' })
  await memoryIsCritical()
  await untilTold('evicted second')
  expect(messageOf('second')).toContain('has 1.1 TB')
})

test('one that was evicted comes back also where its cluster has another address by now', async () => {
  const target = { uid: uidOf('first'), namespace: 'ns', name: 'first', cluster: 'https://cluster.test:6444' }
  unloadReasons.unload(target, { kind: 'evicted', since: new Date(0).toISOString(), message: 'Evicted.' })
  serviceIs('first', {})
  await memory.start()
  now += 60_000
  await untilTold('broughtBack first')
})

test('services that share one memory leave together, and the next one goes only when all of them have left', async () => {
  for (const name of ['first', 'second', 'third']) isLoaded(name)
  for (const name of ['first', 'second']) {
    memory.adopt({ key: `ns/${name}`, needBytes: 1024 ** 3, priority: 'normal', sharedAs: 'tag' })
  }
  serviceIs('third', { server: { pid: groupId, kind: 'starting' }, isProtected: true, plan: { state: 'ready' } })
  await memoryIsCritical()
  await untilTold('evicted second')
  expect([told, evicted]).toEqual([['evicted first', 'evicted second'], 2])
  expect(messageOf('first')).toContain('ns/first and ns/second leave memory first')
  serviceIs('third', { server: { pid: groupId, kind: 'starting' }, plan: { state: 'ready' } })
  isLoaded('fourth')
  serviceIs('first', {})
  now += evictionRules.coolDownMs
  await memory.look()
  await memory.look()
  expect(evicted).toBe(2)
})

test('nothing is evicted while memory is better again, though the level is kept until that has lasted', async () => {
  for (const name of ['first', 'second']) isLoaded(name)
  await memoryIsCritical()
  machine.kernelLevel = 'normal'
  await memory.look()
  const whileEasing = [memory.view?.level, told.length]
  machine.kernelLevel = 'critical'
  await untilTold('evicted first')
  expect(whileEasing).toEqual(['critical', 0])
})

test('what cannot be written to disk is evicted all the same, and counted once', async () => {
  await mkdir(join(folder.dir, 'absences.json'))
  for (const name of ['first', 'second']) isLoaded(name)
  await memoryIsCritical()
  await untilTold('evicted first')
  await memory.look()
  expect([isAway('first'), evicted]).toEqual([true, 1])
})

test('one that answers a request goes after one that answers none, also when memory is short all of a sudden', async () => {
  for (const [name, requests] of Object.entries({ busy: 1, free: 0 })) {
    isLoaded(name, { kind: 'ready', port: await metricsOf(requests), healthy: true })
  }
  machine.kernelLevel = 'critical'
  await memory.start()
  now += 6_000
  await untilTold('evicted')
  expect(told).toEqual(['evicted free'])
  expect(messageOf('free')).toContain('ns/free leaves memory first')
  expect(messageOf('free')).toContain('answers no request now')
})

test('one that worked between two looks is not idle, though it answers no request at either', async () => {
  const tokens = { used: 1, waiting: 1 }
  const looks = { used: 0, waiting: 0 }
  for (const name of ['used', 'waiting'] as const) {
    const port = await listen((_, response) => {
      looks[name] += 1
      response.end(`llamacpp:requests_processing 0\nllamacpp:prompt_tokens_total ${tokens[name]}\n`)
    })
    isLoaded(name, { kind: 'ready', port, healthy: true })
  }
  machine.kernelLevel = 'warning'
  await memory.start()
  await eventually(async () => {
    now += 1_000
    await memory.look()
    return looks.used > 1 && looks.waiting > 1
  })
  tokens.used += 1
  now += evictionRules.idleAfterMs
  await memoryIsCritical()
  await untilTold('evicted')
  expect(told).toEqual(['evicted waiting'])
})

test('one that does not answer counts as busy, so that one without a request goes first', async () => {
  for (const [name, port] of Object.entries({ hanging: await silentPort(), idle: await metricsOf(0) })) {
    isLoaded(name, { kind: 'ready', port, healthy: true })
  }
  await memoryIsCritical()
  await untilTold('evicted')
  expect(told).toEqual(['evicted idle'])
})

test('one that is evicted again soon after it came back stays out for twice as long', async () => {
  isLoaded('first')
  isLoaded('second')
  await memoryIsCritical()
  await untilTold('evicted first')
  serviceIs('first', {})
  await memoryCalmsDownTo('normal')
  now += comeBackMs
  await untilTold('broughtBack first')
  expect(sentences.at(-1)).toContain('normal for 1 s')

  told.length = 0
  isLoaded('first')
  await memoryIsCritical()
  now += comeBackTimes.betweenMs
  await untilTold('evicted first')
  serviceIs('first', {})
  await memoryCalmsDownTo('normal')
  now += comeBackMs
  await memory.look()
  now += comeBackMs
  await untilTold('broughtBack first')
  expect(sentences.at(-1)).toContain('normal for 2 s')
})

test('the next one goes only some time after the server of the one before is gone', async () => {
  for (const name of ['first', 'second', 'third']) isLoaded(name)
  await memoryIsCritical()
  await untilTold('evicted first')
  serviceIs('first', { server: { kind: 'stopping' } })
  await memory.look()
  await memoryCalmsDownTo('warning')
  now += evictionRules.coolDownMs
  serviceIs('first', {})
  await memory.look()
  const goneAt = now

  await memoryIsCritical()
  await memory.look()
  now = goneAt + evictionRules.coolDownMs
  await untilTold('evicted second')
  expect(Date.parse(unloadReasons.of(uidOf('second'))?.since ?? '')).toBe(now)
})

test.each<[what: string, server: object]>([
  ['a process that does not end though it was killed', { kind: 'stopping', hangs: 'Process 7 did not end.' }],
  ['processes that its server left behind', { kind: 'exited', settled: false, left: 'Process 8 is left.' }],
])('%s holds up no further eviction, and that is said once', async (_what, server) => {
  for (const name of ['first', 'second', 'third']) isLoaded(name)
  await memoryIsCritical()
  await untilTold('evicted first')
  serviceIs('first', { server })
  await eventually(async () => {
    now += 1_000
    await memory.look()
    return told.includes('evicted second')
  })
  expect(warnings).toEqual(['evicted model keeps its memory'])
})

test('why nothing is evicted is told once for each time that memory becomes critically short', async () => {
  isLoaded('only')
  for (const episode of [1, 2]) {
    skips = 0
    await memoryIsCritical()
    await eventually(async () => {
      await memory.look()
      return skips > 2
    })
    expect(events).toEqual(Array(episode).fill('EvictionSkipped ns/only'))
    await memoryCalmsDownTo('normal')
  }
})

function metricsOf(requests: number): Promise<number> {
  return listen((_, response) => {
    response.end(`llamacpp:requests_processing ${requests}\nllamacpp:requests_deferred 0\n`)
  })
}

/** Of a server that hangs up without a word. */
const silentPort = () => listen(({ socket }) => socket.destroy())

async function listen(answer: RequestListener): Promise<number> {
  const server = createServer(answer)
  listening.push(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}
