import type { AgentProcess } from './agent-process.ts'
import { inferenceService, metalModel, servedBySample } from './objects.ts'
import { poll, secondsSince } from './poll.ts'
import { isGone } from './proc.ts'
import type { Group } from './row.ts'
import type { Site } from './world.ts'

/** As the Go agent was measured. */
const loadMs = 200

/** One service after the other: applied, killed, restarted and deleted. A new one each time, as back-off counts per service. */
export const life: Group = {
  name: 'life',
  measure: async (world, { lifeRuns }) => {
    await using site = await world.openSite()
    await site.admin.create(metalModel('model', site.modelFile))
    await using agent = await site.startAgent()
    await agent.ready()
    const lives: Life[] = []
    while (lives.length < lifeRuns) lives.push(await live(site, agent, `service-${lives.length + 1}`))
    const values = (of: keyof Life): number[] => lives.map((one) => one[of])
    return [
      { what: 'apply → process started', unit: 's', values: values('started'), goAgent: 3.5, goal: 0.15 },
      { what: 'apply → ready in the slice', unit: 's', values: values('ready'), goAgent: 4, goal: 0.5 },
      { what: 'delete → process gone (idle server)', unit: 's', values: values('gone'), goAgent: 3.9, goal: 0.3 },
      { what: 'server killed → endpoint withdrawn', unit: 's', values: values('withdrawn'), goAgent: 21.9, goal: 0.2 },
      { what: 'server killed → ready again', unit: 's', values: values('readyAgain'), goAgent: 22.4, goal: 0.6 },
    ]
  },
}

/** In seconds. */
interface Life {
  readonly started: number
  readonly ready: number
  readonly withdrawn: number
  readonly readyAgain: number
  readonly gone: number
}

async function live({ admin, slices }: Site, agent: AgentProcess, name: string): Promise<Life> {
  const appliedAt = performance.now()
  const applied = admin.create(servedBySample(name, 'model', { loadMs }))
  const first = await agent.newServer()
  const started = secondsSince(appliedAt)
  const ready = secondsSince(appliedAt, await slices.until(name, 'ready'))
  await applied

  const killedAt = performance.now()
  process.kill(first, 'SIGKILL')
  const withdrawn = secondsSince(killedAt, await slices.until(name, 'not ready', 'gone'))
  const second = await agent.newServer([first])
  const readyAgain = secondsSince(killedAt, await slices.until(name, 'ready'))

  const deletedAt = performance.now()
  const deleted = admin.delete(inferenceService(name))
  await poll('the server is gone', () => (isGone(second) ? true : undefined))
  const gone = secondsSince(deletedAt)
  await deleted
  await slices.until(name, 'gone')
  return { started, ready, withdrawn, readyAgain, gone }
}
