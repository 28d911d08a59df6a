import { setTimeout as delay } from 'node:timers/promises'
import type { AgentSnapshot } from '../src/contract/snapshot.ts'
import { metalModel, servedBySample } from './objects.ts'
import { poll } from './poll.ts'
import { cpuShares } from './proc.ts'
import type { Group } from './row.ts'

const services = Array.from({ length: 10 }, (_, index) => `looked-at-${index}`)
/** What follows a start is over by then. */
const settleSeconds = 15
/** Parts of the time, for the spread. */
const parts = 3

/** Nothing happens, and a window of the agent is open. */
export const lookedAt: Group = {
  name: 'looked-at',
  measure: async (world, { idleSeconds }) => {
    await using site = await world.openSite()
    await site.admin.create(metalModel('model', site.modelFile))
    await using agent = await site.startAgent()
    await agent.ready()
    await Promise.all(services.map((name) => site.admin.create(servedBySample(name, 'model', {}))))
    await Promise.all(services.map((name) => site.slices.until(name, 'ready')))
    await using window = await agent.connect()
    let latest: AgentSnapshot | undefined
    const leave = window.follow({ next: (snapshot) => (latest = snapshot), end: () => undefined }, 'window')
    await poll('figures of all services', () => reported(latest) === services.length || undefined)
    await delay(settleSeconds * 1_000)
    const cpu = await cpuShares(agent.pid, idleSeconds, parts)
    leave()
    return [
      {
        what: 'CPU, 10 idle services and an open window',
        unit: '%',
        values: cpu,
        goal: 1,
        note: 'figures of the runtimes and footprints every 2 s',
      },
    ]
  },
}

const reported = (snapshot: AgentSnapshot | undefined): number =>
  Object.values(snapshot?.figures ?? {}).filter(({ runtime }) => runtime?.state === 'reported').length
