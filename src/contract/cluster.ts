import { z } from 'zod'

/**
 * How well we see one resource of the cluster. `stale` keeps its last list and says since when; `denied`: the login lacks rights; `unauthorized`:
 * the login is not accepted, or not any more.
 */
export const connectionStates = ['connecting', 'live', 'stale', 'denied', 'unauthorized', 'absent', 'offline'] as const
export const connectionState = z.enum(connectionStates)
export type ConnectionState = z.infer<typeof connectionState>

export const clusterView = z.object({
  context: z.string(),
  server: z.string(),
  /** Absent = all namespaces. */
  namespace: z.string().optional(),
  state: connectionState,
  message: z.string(),
  since: z.iso.datetime(),
  retryAt: z.iso.datetime().optional(),
})
export type ClusterView = z.infer<typeof clusterView>
