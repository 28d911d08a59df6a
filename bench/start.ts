import type { Group } from './row.ts'

export const start: Group = {
  name: 'start',
  measure: async (world, { startRuns }) => {
    await using site = await world.openSite()
    const values: number[] = []
    while (values.length < startRuns) {
      await using agent = await site.startAgent()
      values.push(await agent.ready())
    }
    return [{ what: 'agent started → ready (no services)', unit: 's', values }]
  },
}
