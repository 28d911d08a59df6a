import { desiredOf } from '../src/agent-core/reconcile/desired.ts'
import { parseInferenceService } from '../src/agent-core/kube/resources.ts'
import { conditionsChange } from '../src/agent-core/kube/status-writer.ts'
import type { AdminClient } from '../test/support/control-plane/admin-client.ts'
import type { AgentProcess } from './agent-process.ts'
import { inferenceService, metalModel, servedBySample } from './objects.ts'
import { poll, secondsSince } from './poll.ts'
import { isGone, memoryOf, peakMemoryOf } from './proc.ts'
import { countsBetween, listed, type RequestCounter } from './request-count.ts'
import type { Group } from './row.ts'
import { statisticsOf } from './statistics.ts'
import type { Site } from './world.ts'

const total = 1_000
const active = 'active'
const changesPerRun = 3
const requestsAtOnce = 16

/** 1,000 InferenceServices and Models: 999 suspended, and reported as such by an earlier run of the agent, and one that serves. */
export const thousand: Group = {
  name: 'thousand',
  measure: async (world, { thousandRuns }) => {
    await using site = await world.openSite({ controller: false })
    await fill(site)
    const counter = await site.countRequests()
    const runs: Run[] = []
    while (runs.length < thousandRuns) runs.push(await run(site, counter))
    const peak = statisticsOf(runs.map((one) => one.peak)).median
    return [
      {
        what: '1,000 services: agent started → all listed',
        unit: 's',
        values: runs.map((one) => one.synced),
        goal: 1,
        note: `requests of the last start: ${runs.at(-1)?.requests ?? ''}`,
      },
      {
        what: '1,000 services: resident memory',
        unit: 'MiB',
        values: runs.map((one) => one.resident),
        goal: 200,
        note: `at most ${peak.toFixed(1)} MiB, while it started`,
      },
      {
        what: '1,000 services: one suspended → withdrawn',
        unit: 's',
        values: runs.flatMap((one) => one.withdrawn),
        goal: 0.2,
      },
      {
        what: '1,000 services: one resumed → process started',
        unit: 's',
        values: runs.flatMap((one) => one.resumed),
        goal: 0.2,
      },
    ]
  },
}

interface Run {
  readonly synced: number
  readonly resident: number
  readonly peak: number
  readonly withdrawn: readonly number[]
  readonly resumed: readonly number[]
  readonly requests: string
}

async function run(site: Site, counter: RequestCounter): Promise<Run> {
  const before = await counter.read()
  await using agent = await site.startAgent()
  await agent.ready()
  await poll('all services are listed', async () =>
    (await agent.snapshot()).services.length === total ? true : undefined,
  )
  const synced = secondsSince(agent.startedAt)
  await site.slices.until(active, 'ready')
  const requests = listed(countsBetween(before, await counter.read()))
  const withdrawn: number[] = []
  const resumed: number[] = []
  while (resumed.length < changesPerRun) {
    withdrawn.push(await suspend(site, agent))
    resumed.push(await resume(site, agent))
  }
  const { residentMiB: resident } = memoryOf(agent.pid)
  return { synced, resident, peak: peakMemoryOf(agent.pid), withdrawn, resumed, requests }
}

async function suspend({ admin, slices }: Site, agent: AgentProcess): Promise<number> {
  const servers = agent.servers()
  const changedAt = performance.now()
  await admin.patch(inferenceService(active), { spec: { suspend: true } })
  const seconds = secondsSince(changedAt, await slices.until(active, 'not ready', 'gone'))
  await poll('the server is gone', () => (servers.every(isGone) ? true : undefined))
  await slices.until(active, 'gone')
  return seconds
}

async function resume({ admin, slices }: Site, agent: AgentProcess): Promise<number> {
  const changedAt = performance.now()
  const changed = admin.patch(inferenceService(active), { spec: { suspend: false } })
  await agent.newServer()
  const seconds = secondsSince(changedAt)
  await changed
  await slices.until(active, 'ready')
  return seconds
}

async function fill({ admin, modelFile }: Site): Promise<void> {
  const names = Array.from({ length: total - 1 }, (_, index) => `suspended-${String(index).padStart(3, '0')}`)
  const left = names.values()
  const worker = async (): Promise<void> => {
    for (const name of left) {
      await admin.create({ ...metalModel(name, modelFile), status: { phase: 'Ready' } })
      await createSuspended(admin, name)
    }
  }
  await Promise.all(Array.from({ length: requestsAtOnce }, worker))
  await admin.create(metalModel(active, modelFile))
  await admin.create(servedBySample(active, active, { loadMs: 0 }))
}

/** With the status that the agent itself would write, so that it finds nothing left to say. */
async function createSuspended(admin: AdminClient, name: string): Promise<void> {
  const spec = { modelRef: name, suspend: true }
  const created = parseInferenceService(await admin.create({ ...inferenceService(name), spec }))
  const wish = desiredOf({
    key: `${created.metadata.namespace}/${name}`,
    synced: true,
    service: created,
    lastSeen: undefined,
    model: undefined,
    allowlist: [],
    nameTakenBy: undefined,
    hold: undefined,
    chooseRuntime: () => ({ ok: false, message: 'not asked for a suspended service' }),
  })
  if (wish.kind !== 'stopped') throw new Error(`The agent takes a suspended service for one that is ${wish.kind}.`)
  const { reason, message } = wish
  const conditions = conditionsChange(created, [{ type: 'MetalAgent', status: 'False', reason, message }], new Date())
  await admin.patchStatus(inferenceService(name), {
    phase: reason,
    readyReplicas: 0,
    desiredReplicas: 0,
    conditions,
  })
}
