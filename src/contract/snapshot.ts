import { z } from 'zod'
import { clusterView } from './cluster.ts'
import { memoryFigures, memoryView } from './memory.ts'
import { downloadView } from './models.ts'
import { panicFuseView } from './panic-fuse.ts'
import { powerFigures, powerView } from './power.ts'
import { serviceFigures, serviceView } from './service.ts'
import { supplyView } from './supply.ts'

/** Rises when a reader of the previous version could misread this one. */
export const protocolVersion = 1

export const hostView = z.object({
  nodeId: z.string(),
  displayName: z.string(),
  platform: z.string(),
  /** Absent = nothing can be published; `message` says why. */
  address: z.string().optional(),
  message: z.string(),
  /** A person paused this machine: endpoints are withdrawn, models stay in memory. */
  paused: z.boolean(),
})
export type HostView = z.infer<typeof hostView>

export const agentSnapshot = z.object({
  protocol: z.literal(protocolVersion),
  /** New at every start of the agent: a reader that sees a different id starts over. */
  bootId: z.string(),
  revision: z.number().int(),
  /** The agent's clock: ages are `now` minus a timestamp, whatever the reader's clock says. */
  now: z.iso.datetime(),
  version: z.string(),
  startedAt: z.iso.datetime(),
  host: hostView,
  cluster: clusterView,
  /** Sorted by namespace, then name. */
  services: z.array(serviceView),
  /** By uid of the service; missing where there is nothing to tell. */
  figures: z.record(z.string(), serviceFigures),
  /** Absent before the first look at it. */
  memory: memoryView.optional(),
  memoryFigures: memoryFigures.optional(),
  /** Absent while nobody asked for it. */
  power: powerView.optional(),
  /** Absent while nothing is measured. */
  powerFigures: powerFigures.optional(),
  /** Absent where the system does not say, and nothing follows from it. */
  supply: supplyView.optional(),
  /** Absent while models start as usual. */
  panicFuse: panicFuseView.optional(),
  /** Without a service: under way, or ended a moment ago. */
  downloads: z.array(downloadView),
  /** The id of the newest entry of the history: whoever shows it asks for what is newer. 0 = there is none. */
  newestHistoryId: z.int().nonnegative(),
  /** Another one after each change of what a person set; absent of an agent that does not tell. */
  settingsRevision: z.int().nonnegative().optional(),
  /** True sentences about the whole agent that a person should know, such as "There is no Metal on this machine". */
  notices: z.array(z.string()),
})
export type AgentSnapshot = z.infer<typeof agentSnapshot>
