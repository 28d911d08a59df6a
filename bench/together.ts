import { inferenceService, metalModel, servedBySample } from './objects.ts'
import { poll, secondsSince } from './poll.ts'
import type { Group } from './row.ts'

const loadMs = 3_000
const names = ['a', 'b', 'c', 'd', 'e']

export const together: Group = {
  name: 'together',
  measure: async (world, { togetherRuns }) => {
    await using site = await world.openSite()
    const { admin, slices } = site
    await admin.create(metalModel('model', site.modelFile))
    await using agent = await site.startAgent()
    await agent.ready()
    const values: number[] = []
    while (values.length < togetherRuns) {
      const appliedAt = performance.now()
      await Promise.all(names.map((name) => admin.create(servedBySample(name, 'model', { loadMs }))))
      const readyAt = await Promise.all(names.map((name) => slices.until(name, 'ready')))
      values.push(secondsSince(appliedAt, Math.max(...readyAt)))
      await Promise.all(names.map((name) => admin.delete(inferenceService(name))))
      await Promise.all(names.map((name) => slices.until(name, 'gone')))
      await poll('the servers are gone', () => (agent.servers().length === 0 ? true : undefined))
    }
    return [{ what: '5 services of 3 s load → all ready', unit: 's', values, goAgent: 20.6, goal: 4 }]
  },
}
