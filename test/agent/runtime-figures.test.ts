import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { livenessTimings } from '../../src/agent-core/servers/liveness.ts'
import type { RuntimeFigures } from '../../src/contract/service.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import type { RunningAgent } from '../support/running-agent.ts'

let sim: KubeSim
beforeAll(async () => {
  sim = await KubeSim.start()
})
afterAll(() => sim[Symbol.asyncDispose]())

/** Probes often, so that time is told by them, and never looks at counters by itself. */
const liveness = { ...livenessTimings, everyMs: 50, progressEveryMs: 3_600_000 }

const seenShape = z.object({ probes: z.number(), looks: z.number(), endlessBytes: z.number() })
const seenBy = async (port: number) => seenShape.parse(await (await fetch(`http://127.0.0.1:${port}/sample`)).json())

/** How often its counters were asked for while it was probed sixty times. */
async function looksMeanwhile(port: number): Promise<number> {
  const from = await seenBy(port)
  const to = await eventually(async () => {
    const seen = await seenBy(port)
    return seen.probes >= from.probes + 60 && seen
  })
  return to.looks - from.looks
}

function runtimeOf({
  agent,
  view,
}: {
  agent: RunningAgent['agent']
  view: { uid: string }
}): RuntimeFigures | undefined {
  return agent.snapshot('icon').figures[view.uid]?.runtime
}

test('a server is asked for its figures while a menu or a window looks, and neither before nor after, nor for an icon', async () => {
  await using world = await AgentWorld.open(sim.connection())
  const { agent, ...running } = await started(world)
  await world.apply('tiny', { script: { tokenMs: 5 } })
  const view = await running.untilReady('tiny')
  const { port } = view
  expect([(await seenBy(port)).looks, await looksMeanwhile(port)]).toEqual([0, 0])
  const leaveWindow = agent.subscribe(() => undefined, 'window')
  await eventually(() => runtimeOf({ agent, view })?.state === 'reported')
  await fetch(`http://127.0.0.1:${port}/completion`, { method: 'POST', body: JSON.stringify({ n_predict: 100 }) })
  const figures = await eventually(() => {
    const runtime = runtimeOf({ agent, view })
    return runtime?.generatedTokensPerSecond !== undefined && runtime
  })
  expect(figures).toMatchObject({ requestsRunning: 0, requestsWaiting: 0, lastRequestAt: expect.any(String) as string })
  expect(figures.generatedTokensPerSecond).toBeLessThanOrEqual(200)
  expect(figures).not.toHaveProperty('kvUse')
  leaveWindow()
  expect(runtimeOf({ agent, view })).toBeUndefined()
  // A request under way when the window left may still arrive.
  await looksMeanwhile(port)
  expect(await looksMeanwhile(port)).toBe(0)
  expect((await agent.look()).figures[view.uid]?.runtime?.state).toBe('reported')
})

test('whatever a runtime says instead of figures, it is not reported, the agent is well and the others are read', async () => {
  const odd = ['page', 'impossible', 'endless', 'silent'] as const
  await using world = await AgentWorld.open(sim.connection())
  const { agent, ...running } = await started(world)
  await world.applyModel('good')
  await Promise.all([
    world.applyService('good', { script: {} }),
    ...odd.map((oddMetrics) => world.applyService(oddMetrics, { modelRef: 'good', script: { oddMetrics } })),
  ])
  const views = await Promise.all(['good', ...odd].map((name) => running.untilReady(name)))
  await agent.look()
  const { figures } = await agent.look()
  expect(views.map(({ name, uid }) => [name, figures[uid]?.runtime?.state])).toEqual([
    ['good', 'reported'],
    ['page', 'notReported'],
    ['impossible', 'notReported'],
    ['endless', undefined],
    ['silent', undefined],
  ])
  const endless = views.find(({ name }) => name === 'endless')
  expect((await seenBy(endless?.port ?? 0)).endlessBytes).toBeLessThan(50 * 1024 * 1024)
  expect(agent.snapshot('icon').services.map(({ state }) => state)).toEqual(views.map(() => 'ready'))
})

async function started(world: AgentWorld) {
  const running = await world.startAgent({ liveness })
  return { agent: running.agent, untilReady: (name: string) => running.untilReady(name) }
}
