import type { LastingRooms } from './lasting-rooms.ts'
import { runtimeMetricsFeed } from '../observability/metrics/runtime-metrics.ts'
import { serviceMetricsFeed } from '../observability/metrics/service-metrics.ts'
import { sessionMetricsFeed } from '../observability/metrics/session-metrics.ts'
import type { RoomContext } from './room-context.ts'

/** What is brought up to date only for a scrape, which is a look at the agent as a window's is. */
export function followForScrapes(
  { metrics, snapshots, session }: RoomContext,
  { figures, spending }: Pick<LastingRooms, 'figures' | 'spending'>,
): void {
  const services = serviceMetricsFeed(metrics)
  const runtimes = runtimeMetricsFeed(metrics, figures)
  const ofSession = sessionMetricsFeed(metrics, session)
  metrics.beforeRender(async () => {
    const snapshot = snapshots.get()
    services(snapshot)
    ofSession()
    await runtimes(snapshot.services)
    spending.show(snapshot.services)
  })
}
