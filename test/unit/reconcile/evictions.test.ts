import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { defaultThresholds } from '../../../src/agent-core/memory/pressure.ts'
import { Memory, type MeasuredServer } from '../../../src/agent-core/memory/memory.ts'
import { Evictions } from '../../../src/agent-core/reconcile/evictions.ts'
import { Holds } from '../../../src/agent-core/reconcile/holds.ts'
import { MemoryState } from '../../../src/agent-core/reconcile/memory-state.ts'
import type { ServiceReport } from '../../../src/agent-core/reconcile/reconciler.ts'
import { eventually } from '../../support/eventually.ts'
import { silentLog } from '../../support/silent-log.ts'
import { StatedMemory } from '../../support/stated-memory.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const clusterUrl = 'https://cluster.test'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let machine: StatedMemory
let memory: Memory
let holds: Holds
let evictions: Evictions
let servers: MeasuredServer[]
let reports: Map<string, ServiceReport>
let now: number
let listening: Server[]
let told: string[]

beforeEach(async () => {
  folder = await temporaryFolder()
  machine = new StatedMemory()
  servers = []
  reports = new Map()
  listening = []
  told = []
  now = 0
  memory = new Memory({
    platform: machine.platform,
    settings: () => ({ fraction: 0, budgetBytes: undefined, enforcement: 'enforce', mayEvict: false }),
    thresholds: defaultThresholds,
    intervalMs: 0,
    servers: () => servers,
    log: silentLog,
    now: () => now,
  })
  holds = await Holds.open(join(folder.dir, 'holds.json'))
  evictions = new Evictions({
    memory,
    memoryState: await MemoryState.open(join(folder.dir, 'memory.json')),
    holds,
    history: { add: ({ kind, service }) => void told.push(`${kind} ${service?.name ?? ''}`) },
    session: () => ({
      clusterUrl,
      reconciler: {
        report: (key) => known().find(({ record }) => record.key === key),
        reports: known,
        tell: () => undefined,
        enqueue: () => undefined,
      },
    }),
    settings: () => ({ isEnabled: true, share: 0, comeBackMs: 1_000 }),
    log: silentLog,
    onEvicted: () => undefined,
    onSkipped: () => undefined,
    now: () => now,
  })
})
afterEach(async () => {
  evictions[Symbol.dispose]()
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

const known = () => [...reports.values()].map((report) => ({ ...report, hold: holds.get(report.record.metadata?.uid) }))

const isHeld = (name: string) => holds.get(`uid of ${name}`) !== undefined

function serviceIs(name: string, more: object): void {
  const record = { key: `ns/${name}`, namespace: 'ns', name, metadata: { uid: `uid of ${name}` } }
  const report = { record, server: undefined, retiring: undefined, isProtected: false, ...more }
  reports.set(record.key, report as unknown as ServiceReport)
}

test('one that came back and waits does not keep others from coming back', async () => {
  for (const [at, name] of ['first', 'second'].entries()) {
    const since = new Date(at).toISOString()
    const target = { uid: `uid of ${name}`, namespace: 'ns', name, cluster: clusterUrl }
    await holds.set(target, { cause: 'evicted', since, message: 'Evicted.', by: 'pressure' })
  }
  await memory.start()
  now += 60_000
  await untilTold('broughtBack first')
  serviceIs('first', { plan: { state: 'starting' } })
  now += 60_000
  await memory.look()
  await memory.look()
  expect(isHeld('second')).toBe(true)
  serviceIs('first', { plan: { state: 'waiting' } })
  await untilTold('broughtBack second')
})

test('one that answers a request goes after one that answers none, also when memory is short all of a sudden', async () => {
  const { pid: self } = process
  const groupId = (await machine.platform.processes()).find(({ pid }) => pid === self)?.groupId ?? 0
  for (const [name, requests] of Object.entries({ busy: 1, free: 0 })) {
    const server = { kind: 'ready', pid: groupId, port: await metricsOf(requests), healthy: true }
    serviceIs(name, { server })
    servers.push({ key: `ns/${name}`, role: 'current', groupId })
  }
  machine.kernelLevel = 'critical'
  await memory.start()
  now += 6_000
  await untilTold('evicted')
  expect(told).toEqual(['evicted free'])
  expect(holds.get('uid of free')?.message).toContain('ns/free leaves memory first')
  expect(holds.get('uid of free')?.message).toContain('answers no request now')
})

async function metricsOf(requests: number): Promise<number> {
  const server = createServer((_, response) => {
    response.end(`llamacpp:requests_processing ${requests}\nllamacpp:requests_deferred 0\n`)
  })
  listening.push(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}
