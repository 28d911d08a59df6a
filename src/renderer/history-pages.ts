import { type Answer, maxPage } from '../contract/queries.ts'

/** Newest first, without a gap. */
export type KnownHistory = Answer<'history'>

/** Asked for at first, and at each wish for more. */
export const step = 50

/** How much to ask for: all that is missing and what comes meanwhile, or a first page where that is too much. */
export function newerLimit(known: KnownHistory | undefined, newestId: number): number {
  const newest = known?.entries[0]?.id
  if (newest === undefined) return step
  const missing = Math.max(0, newestId - newest)
  return missing > maxPage ? step : Math.min(maxPage, missing + step)
}

/** What was asked for because there is something newer; alone where entries between are missing, or the history was begun anew. */
export function withNewer(known: KnownHistory | undefined, page: KnownHistory): KnownHistory {
  const newest = known?.entries[0]?.id
  const newestOfPage = page.entries[0]
  if (known === undefined || newest === undefined || newestOfPage === undefined) return page
  const knownAt = new Map(known.entries.map(({ id, at }) => [id, at]))
  const isAnew = page.entries.some(({ id, at }) => (knownAt.get(id) ?? at) !== at)
  if (isAnew) return page
  if (newestOfPage.id < newest) return knownAt.has(newestOfPage.id) ? known : page
  const reachesKnown = page.entries.some(({ id }) => id <= newest + 1)
  if (!reachesKnown) return page
  return { entries: [...page.entries.filter(({ id }) => id > newest), ...known.entries], hasMore: known.hasMore }
}

/** What came before all that is known. */
export function withOlder(known: KnownHistory | undefined, page: KnownHistory): KnownHistory {
  const oldest = known?.entries.at(-1)?.id
  if (known === undefined || oldest === undefined) return page
  return { entries: [...known.entries, ...page.entries.filter(({ id }) => id < oldest)], hasMore: page.hasMore }
}
