import { setTimeout as delay } from 'node:timers/promises'
import { metalModel, servedBySample } from './objects.ts'
import { cpuShares, memoryOf, type Memory } from './proc.ts'
import { countsBetween, listed, totalOf, type RequestCounter, type RequestCounts } from './request-count.ts'
import type { Group } from './row.ts'
import { statisticsOf } from './statistics.ts'
import type { Site } from './world.ts'

const services = Array.from({ length: 10 }, (_, index) => `idle-${index}`)
/** What follows a start (statuses, compilation, garbage) is over by then. */
const settleSeconds = 15
/** Parts of the window, for the spread. */
const parts = 3
const megabytes = (value: number): string => value.toFixed(1)

/** Nothing happens, and nothing else is measured beside it. */
export const idle: Group = {
  name: 'idle',
  measure: async (world, { emptySeconds, idleSeconds }) => {
    await using site = await world.openSite()
    await site.admin.create(metalModel('model', site.modelFile))
    const counter = await site.countRequests()
    const empty = await watchIdle(site, counter, { seconds: emptySeconds })
    const launcher = await world.buildSelfContained()
    const oneFile = await watchIdle(site, counter, { seconds: emptySeconds, launcher })
    const busy = await watchIdle(site, counter, {
      seconds: idleSeconds,
      prepare: async () => {
        await Promise.all(services.map((name) => site.admin.create(servedBySample(name, 'model', {}))))
        await Promise.all(services.map((name) => site.slices.until(name, 'ready')))
      },
    })
    return [
      {
        what: 'API requests per minute, 10 idle services',
        unit: '/min',
        values: [(totalOf(busy.requests) * 60) / busy.seconds],
        goAgent: 239,
        goal: 20,
        note: `in ${busy.seconds.toFixed(0)} s: ${listed(busy.requests)}`,
      },
      {
        what: 'CPU, 10 idle services',
        unit: '%',
        values: busy.cpu,
        goAgent: 0.17,
        goal: 0.2,
        missedBecause:
          'most are the heartbeats and what the controller writes after each; the health probes of 50 servers alone take about 0.5 %',
      },
      {
        what: 'resident memory, 10 idle services',
        unit: 'MiB',
        values: busy.resident,
        goAgent: 32,
        goal: 90,
        note: `${megabytes(busy.proportional)} MiB of it when what other processes share is counted in parts (PSS)`,
        missedBecause:
          "more than half are the pages of the node binary; most of the rest is what V8 took to compile the bundle and undici's WebAssembly",
      },
      {
        what: 'API requests per minute, no services',
        unit: '/min',
        values: [(totalOf(empty.requests) * 60) / empty.seconds],
        note: `in ${empty.seconds.toFixed(0)} s: ${listed(empty.requests) || 'none'}`,
      },
      { what: 'CPU, no services', unit: '%', values: empty.cpu, goal: 0.2 },
      { what: 'resident memory, no services', unit: 'MiB', values: empty.resident, goal: 95 },
      {
        what: 'resident memory, no services, the command as one file',
        unit: 'MiB',
        values: oneFile.resident,
        note: `${megabytes(oneFile.proportional)} MiB of it as PSS, beside ${megabytes(empty.proportional)} of the launcher with its bundle`,
      },
    ]
  },
}

interface Idle {
  readonly seconds: number
  readonly requests: RequestCounts
  /** Of one core, in percent. */
  readonly cpu: readonly number[]
  readonly resident: readonly number[]
  readonly proportional: number
}

interface Watched {
  readonly seconds: number
  /** Absent = the built one. */
  readonly launcher?: string
  /** Once the agent is ready. */
  readonly prepare?: () => Promise<void>
}

async function watchIdle(site: Site, counter: RequestCounter, { seconds, launcher, prepare }: Watched): Promise<Idle> {
  await using agent = await site.startAgent(launcher)
  await agent.ready()
  await prepare?.()
  await delay(settleSeconds * 1_000)
  const startedAt = performance.now()
  const before = await counter.read()
  const cpu: number[] = []
  const memory: Memory[] = []
  for (let part = 0; part < parts; part += 1) {
    cpu.push(...(await cpuShares(agent.pid, seconds / parts)))
    memory.push(memoryOf(agent.pid))
  }
  const requests = countsBetween(before, await counter.read())
  return {
    seconds: (performance.now() - startedAt) / 1_000,
    requests,
    cpu,
    resident: memory.map(({ residentMiB }) => residentMiB),
    proportional: statisticsOf(memory.map(({ proportionalMiB }) => proportionalMiB)).median,
  }
}
