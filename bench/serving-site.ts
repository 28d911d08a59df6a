import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { AgentProcess } from './agent-process.ts'
import { inferenceService, metalModel, servedBySample } from './objects.ts'
import type { Site } from './world.ts'

/** Suspended, so that its model is shown and nothing is started. */
const changing = 'changing'
/** What follows a start is over by then. */
const settleSeconds = 15

/** An agent that serves these, and knows a suspended service beside them that {@link changeOnce} changes; nothing else happens. */
export async function startServing(site: Site, names: readonly string[]): Promise<AgentProcess> {
  const { admin, slices, modelFile } = site
  await using opening = new AsyncDisposableStack()
  await admin.create(metalModel('model', modelFile))
  const agent = opening.use(await site.startAgent())
  await agent.ready()
  await admin.create({ ...inferenceService(changing), spec: { modelRef: 'model', suspend: true } })
  await Promise.all(names.map((name) => admin.create(servedBySample(name, 'model', {}))))
  await Promise.all(names.map((name) => slices.until(name, 'ready')))
  await delay(settleSeconds * 1_000)
  opening.move()
  return agent
}

/** One change of what the agent shows, and of nothing that it does. */
export async function changeOnce({ admin }: Site): Promise<void> {
  await admin.patch(inferenceService(changing), { spec: { modelRef: `model-${randomUUID()}` } })
}

/** Again and again, for so long. */
export async function repeat(step: () => void | Promise<void>, everyMs: number, seconds: number): Promise<void> {
  const endsAt = performance.now() + seconds * 1_000
  while (performance.now() < endsAt) await Promise.all([delay(everyMs), step()])
}
