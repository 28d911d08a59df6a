import type { Answer } from '../contract/queries.ts'

/** Newest first, without a gap. */
export type KnownHistory = Answer<'history'>

/** What was asked for because there is something newer; alone where entries between are missing, or the history was begun anew. */
export function withNewer(known: KnownHistory | undefined, page: KnownHistory): KnownHistory {
  const newest = known?.entries[0]?.id
  if (known === undefined || newest === undefined) return page
  const reachesKnown = page.entries.some(({ id }) => id <= newest + 1)
  if (!reachesKnown || (page.entries[0]?.id ?? 0) < newest) return page
  return { entries: [...page.entries.filter(({ id }) => id > newest), ...known.entries], hasMore: known.hasMore }
}

/** What came before all that is known. */
export function withOlder(known: KnownHistory | undefined, page: KnownHistory): KnownHistory {
  const oldest = known?.entries.at(-1)?.id
  if (known === undefined || oldest === undefined) return page
  return { entries: [...known.entries, ...page.entries.filter(({ id }) => id < oldest)], hasMore: page.hasMore }
}
