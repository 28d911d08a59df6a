import { answerTooLarge, ApiError, isApiError, listTooLong } from './api-error.ts'

/** So few that a page of ordinary objects is read here: one above 512 KiB takes a thread of its own, 0.3 s and 20 MiB at a start. */
const objectsPerPage = 250
/** A page whose answer is too large is asked for again with so many objects less, and after it pages grow again as they fit. */
const factor = 8

/** JSON is read in one go: so much of it, made to be slow, holds the event loop for a tenth of a second. */
const maxPageBytes = 1024 * 1024

/**
 * A list that takes more than one of these is given up: its server may be broken or hostile and never name the last page. They are several
 * times what the largest clusters have; a page without objects counts as one of them.
 */
export const listBounds = { objects: 20_000, bytes: 256 * 1024 * 1024, ms: 300_000 } as const

export interface PageQuery {
  readonly limit: number
  readonly continueToken: string | undefined
  /** Absent where there is nothing smaller to ask for: then the bound of every answer counts. */
  readonly maxBytes?: number
}

interface Page {
  readonly items: readonly unknown[]
  /** Length of the answer. */
  readonly bytes: number
  readonly continueToken: string | undefined
}

/**
 * Every page of a list. What others put into their objects is not ours to trust, so that an answer is bounded in bytes as well: pages
 * shrink until each fits, or has one object. Throws ApiError where the whole exceeds {@link listBounds}.
 */
export async function* pagesOf<P extends Page>(
  list: (page: PageQuery) => Promise<P>,
  now: () => number = () => performance.now(),
): AsyncGenerator<P, void> {
  const startedAt = now()
  const taken = { objects: 0, bytes: 0 }
  let limit = objectsPerPage
  let continueToken: string | undefined
  for (;;) {
    const bound = limit > 1 && { maxBytes: maxPageBytes }
    const page = await list({ limit, continueToken, ...bound }).catch((error: unknown) => {
      if (!isApiError(error) || error.reason !== answerTooLarge || limit === 1) throw error
      return undefined
    })
    if (!page) {
      limit = Math.max(1, Math.floor(limit / factor))
      continue
    }
    taken.objects += Math.max(1, page.items.length)
    taken.bytes += page.bytes
    requireBounded({ ...taken, ms: now() - startedAt })
    yield page
    if (page.continueToken === undefined) return
    continueToken = page.continueToken
    limit = Math.min(objectsPerPage, limit * factor)
  }
}

function requireBounded({ objects, bytes, ms }: Readonly<Record<keyof typeof listBounds, number>>): void {
  if (objects > listBounds.objects) throw tooLong(`has more than ${listBounds.objects} objects, or no end`)
  if (bytes > listBounds.bytes) throw tooLong(`has more than ${listBounds.bytes / 1024 / 1024} MiB, or no end`)
  if (ms > listBounds.ms) throw tooLong(`did not end within ${listBounds.ms / 60_000} minutes`)
}

const tooLong = (how: string): ApiError => new ApiError(`the list ${how}`, { reason: listTooLong })
