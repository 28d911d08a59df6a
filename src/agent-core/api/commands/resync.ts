import { accepted, refused, type Outcome } from './results.ts'
import type { Rooms } from './rooms.ts'

/** Looks at everything anew, as after a wake; begins once the answer is on its way, which that would hold up. */
export function resync({ session, agent }: Rooms): Outcome {
  if (!session()) return Promise.resolve(refused(`There is no cluster to look at: ${agent.clusterMessage()}`))
  setImmediate(() => {
    const current = session()
    current?.cluster.resync()
    current?.reconciler.retryAll()
  })
  return Promise.resolve(accepted('Everything is listed anew and compared with what runs here.'))
}
