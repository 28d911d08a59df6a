import { expect, inject, test } from 'vitest'
import { AgentWorld, inferenceService } from '../support/agent-world.ts'
import { ApiServer } from '../support/control-plane/control-plane.ts'
import { TestCluster } from '../support/control-plane/test-cluster.ts'
import { eventually } from '../support/eventually.ts'
import { everything } from '../support/kube-sim/access.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import type { RunningAgent } from '../support/running-agent.ts'

/** As LLMKube's controller touches a service at every heartbeat. */
const touches = 20

// Events come in order: once the agent has answered a later one, that of the service `marker`, it has seen all touches.

test('an event that changes the status alone costs no request, by the count of a real API server', async ({ skip }) => {
  const controlPlane = inject('controlPlane')
  if ('missing' in controlPlane) return skip(controlPlane.missing)
  await using server = await ApiServer.start()
  await using counter = await TestCluster.open(server.connection)
  await using world = await AgentWorld.open(server.connection, { controller: false })
  const agent = await world.startAgent()
  await settle(world, agent)

  const before = await counter.requestCounts()
  await touch(world)
  await world.patchSpec('marker', { modelRef: 'second' })
  // The test's own writes, the agent's answer to the last of them, and nothing for the touches.
  const answered = {
    'PATCH inferenceservices': 1,
    'PATCH inferenceservices/status': touches,
    'APPLY inferenceservices/status': 1,
    'POST events': 1,
  }
  const counts = async () => difference(before, await counter.requestCounts())
  await eventually(async () => Object.keys(await counts()).length >= Object.keys(answered).length)
  expect(await counts()).toEqual(answered)
})

test('that memory is short is written to schedulingStatus once for what is asked for, and never in answer to a controller', async () => {
  const user = { name: 'agent', token: 'agents-token', rules: everything }
  await using sim = await KubeSim.start({ users: [user] })
  await using world = await AgentWorld.open(sim.connection(), { controller: false })
  // Room for one model of the tests, which are taken to need 537 MB each.
  const settings = { memoryBudgetBytes: 800 * 1024 ** 2 }
  const agent = await world.startAgent({ connection: sim.connection('agent'), settings })
  await settle(world, agent)
  await world.apply('second')
  const isWritten = () =>
    eventually(async () => (await world.status('second')).schedulingStatus === 'InsufficientMemory')
  await isWritten()
  await eventually(async () => (await world.condition('second')) === 'False InsufficientMemory')

  sim.requests.clear()
  const overwrite = (schedulingMessage: string) =>
    world.admin.patchStatus(inferenceService('second'), { schedulingStatus: 'WaitingForMetalAgent', schedulingMessage })
  for (const message of ['first', 'second', 'third']) await overwrite(message)
  await agent.agent.command({ requestId: crypto.randomUUID(), command: { name: 'resync' } })
  await world.patchSpec('marker', { modelRef: 'second' })
  await eventually(async () => (await world.condition('marker')) !== 'False ModelMissing')
  const writes = sim.requests.matching({ user: 'agent', verb: 'patch', resource: 'inferenceservices/status' })
  expect([
    writes.filter(({ name }) => name === 'second').length,
    (await world.status('second')).schedulingStatus,
    await world.condition('second'),
  ]).toEqual([0, 'WaitingForMetalAgent', 'False InsufficientMemory'])

  await world.patchSpec('second', { contextSize: 256 })
  await isWritten()
})

/** A service that serves, and a service whose Model is missing; all their statuses are written. */
async function settle(world: AgentWorld, agent: RunningAgent): Promise<void> {
  await world.apply('tiny')
  await agent.untilReady('tiny')
  await world.applyService('marker', { modelRef: 'first' })
  await eventually(async () => (await world.condition('tiny')) === 'True Serving')
  // A server that is slow to answer on a busy machine may have more.
  await eventually(async () => (await world.eventReasons('tiny')).length >= 5, { what: 'the Events of its start' })
  await eventually(async () => (await world.condition('marker')) === 'False ModelMissing')
  await eventually(async () => (await world.eventReasons('marker')).length >= 1)
}

async function touch(world: AgentWorld): Promise<void> {
  for (let second = 0; second < touches; second += 1) {
    const lastUpdated = new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString()
    await world.admin.patchStatus(inferenceService('tiny'), { phase: 'Ready', readyReplicas: 1, lastUpdated })
  }
}

const ours = /^\w+ (inferenceservices|models|services|endpointslices|endpoints|events)(\/status)?$/

function difference(before: Record<string, number>, after: Record<string, number>): Record<string, number> {
  const changed = Object.entries(after)
    .map(([what, count]) => [what, count - (before[what] ?? 0)] as const)
    .filter(([what, count]) => count !== 0 && ours.test(what))
  return Object.fromEntries(changed)
}
