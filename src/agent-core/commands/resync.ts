import { accepted, refused, type Outcome } from './results.ts'
import type { Rooms } from './rooms.ts'

/** Looks at everything anew, as after a wake. */
export function resync({ session, agent }: Rooms): Outcome {
  const current = session()
  if (!current) return Promise.resolve(refused(`There is no cluster to look at: ${agent.clusterMessage()}`))
  current.cluster.resync()
  current.reconciler.retryAll()
  return Promise.resolve(accepted('Everything is listed anew and compared with what runs here.'))
}
