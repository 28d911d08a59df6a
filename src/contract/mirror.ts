import type { AgentSnapshot } from './snapshot.ts'

/**
 * The next snapshot for a view: unchanged services and figures keep their object identity, so that components that show them need not
 * render again. Another `bootId` is another agent: nothing is kept.
 */
export function mirrored(before: AgentSnapshot | undefined, next: AgentSnapshot): AgentSnapshot {
  if (before?.bootId !== next.bootId) return next
  const known = new Map(before.services.map((service) => [service.uid, service]))
  const services = next.services.map((service) => {
    const same = known.get(service.uid)
    return same?.revision === service.revision ? same : service
  })
  return { ...next, services, figures: keepSame(before.figures, next.figures) }
}

/** Figures have no revision; they are small. */
function keepSame(before: AgentSnapshot['figures'], next: AgentSnapshot['figures']): AgentSnapshot['figures'] {
  const kept = Object.entries(next).map(([uid, figures]) => {
    const same = before[uid]
    return [uid, JSON.stringify(same) === JSON.stringify(figures) && same !== undefined ? same : figures] as const
  })
  return Object.fromEntries(kept)
}
