import type { AgentSnapshot } from './snapshot.ts'

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
