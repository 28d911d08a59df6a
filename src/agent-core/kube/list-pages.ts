import { answerTooLarge, isApiError } from './api-error.ts'

/** So few that a page of ordinary objects is read here: one above 512 KiB takes a thread of its own, 0.3 s and 20 MiB at a start. */
const objectsPerPage = 250
/** A page whose answer is too large is asked for again with so many objects less, and after it pages grow again as they fit. */
const factor = 8

/** JSON is read in one go: so much of it, made to be slow, holds the event loop for a tenth of a second. */
const maxPageBytes = 1024 * 1024

export interface PageQuery {
  readonly limit: number
  readonly continueToken: string | undefined
  /** Absent where there is nothing smaller to ask for: then the bound of every answer counts. */
  readonly maxBytes?: number
}

/**
 * Every page of a list. What others put into their objects is not ours to trust, so that an answer is bounded in bytes as well: pages
 * shrink until each fits, or has one object.
 */
export async function* pagesOf<P extends { readonly continueToken: string | undefined }>(
  list: (page: PageQuery) => Promise<P>,
): AsyncGenerator<P, void> {
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
    yield page
    if (page.continueToken === undefined) return
    continueToken = page.continueToken
    limit = Math.min(objectsPerPage, limit * factor)
  }
}
