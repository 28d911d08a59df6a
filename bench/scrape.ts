import { listenForHealth } from '../src/agent-core/observability/health-server.ts'
import { AgentMetrics } from '../src/agent-core/observability/agent-metrics.ts'
import { fillMetrics } from '../test/support/filled-metrics.ts'
import { silentLog } from '../test/support/silent-log.ts'
import type { Group } from './row.ts'

const services = Array.from({ length: 50 }, (_, index) => ({ namespace: 'default', name: `service-${index}` }))
/** The first ones are compiled and collected for. */
const unmeasured = 10

/** What a scrape of the health port costs from the request to the last byte, every metric having a figure for every service. */
export const scrape: Group = {
  name: 'scrape',
  measure: async (_, { commandCalls }) => {
    using metrics = new AgentMetrics()
    fillMetrics(metrics, services)
    const readiness = () => ({ ready: true, message: '' })
    const server = await listenForHealth({ port: 0, readiness, metrics, log: silentLog })
    if (server.state !== 'listening') throw new Error('The health server does not listen.')
    const values: number[] = []
    let bytes = 0
    for (let call = -unmeasured; call < commandCalls; call += 1) {
      const begun = performance.now()
      const answer = await fetch(`http://127.0.0.1:${server.port}/metrics`)
      bytes = (await answer.text()).length
      if (call >= 0) values.push(performance.now() - begun)
    }
    await server.stop()
    const note = `${Math.round(bytes / 1024)} KiB`
    return [{ what: `scrape of ${services.length} services`, unit: 'ms', values, goal: 20, note }]
  },
}
