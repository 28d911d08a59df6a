import { z } from 'zod'
import { clusterView } from './cluster.ts'
import { memoryFigures, memoryView } from './memory.ts'
import { downloadView } from './models.ts'
import { powerFigures, powerView, supplyView } from './power.ts'
import { runtimeView } from './queries.ts'
import { serviceFigures, serviceView } from './service.ts'

/** Rises when a reader of the previous version could misread this one. */
export const protocolVersion = 1

export const hostView = z.object({
  nodeId: z.string(),
  displayName: z.string(),
  platform: z.string(),
  /** Absent = nothing can be published; `message` says why. */
  address: z.string().optional(),
  message: z.string(),
  /** Where programs on this machine reach every model that serves; absent while nothing listens there. */
  clientProxy: z.string().optional(),
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
  /** What serves models here, as of the last look; absent before the first, and of an agent that does not tell. */
  runtimes: z.array(runtimeView).optional(),
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

/**
 * The next snapshot for a view: what did not change keeps its object identity, so that components that show it need not render again.
 * Another `bootId` is another agent: nothing is kept.
 */
export function mirrored(before: AgentSnapshot | undefined, next: AgentSnapshot): AgentSnapshot {
  if (before?.bootId !== next.bootId) return next
  return {
    ...next,
    host: same(before.host, next.host),
    cluster: same(before.cluster, next.cluster),
    services: sameServices(before.services, next.services),
    figures: sameFigures(before.figures, next.figures),
    ...(next.memory && { memory: same(before.memory, next.memory) }),
    ...(next.memoryFigures && { memoryFigures: same(before.memoryFigures, next.memoryFigures) }),
    ...(next.power && { power: same(before.power, next.power) }),
    ...(next.powerFigures && { powerFigures: same(before.powerFigures, next.powerFigures) }),
    ...(next.runtimes && { runtimes: same(before.runtimes, next.runtimes) }),
    downloads: same(before.downloads, next.downloads),
    notices: same(before.notices, next.notices),
  }
}

/** Such parts have no revision; they are small. */
const same = <T>(before: T | undefined, next: T): T =>
  before !== undefined && JSON.stringify(before) === JSON.stringify(next) ? before : next

function sameServices(before: AgentSnapshot['services'], next: AgentSnapshot['services']): AgentSnapshot['services'] {
  const known = new Map(before.map((service) => [service.uid, service]))
  const services = next.map((service) => {
    const kept = known.get(service.uid)
    return kept?.revision === service.revision ? kept : service
  })
  const isSame = services.length === before.length && services.every((service, index) => service === before[index])
  return isSame ? before : services
}

function sameFigures(before: AgentSnapshot['figures'], next: AgentSnapshot['figures']): AgentSnapshot['figures'] {
  const figures = Object.fromEntries(Object.entries(next).map(([uid, of]) => [uid, same(before[uid], of)]))
  const uids = Object.keys(figures)
  const isSame = uids.length === Object.keys(before).length && uids.every((uid) => figures[uid] === before[uid])
  return isSame ? before : figures
}
