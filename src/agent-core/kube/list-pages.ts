import { answerTooLarge, isApiError } from './api-error.ts'

const objectsPerPage = 500
/** A page whose answer is too large is asked for again with so many objects less. */
const shrinkBy = 8

/**
 * Every page of a list. What others put into their objects is not ours to trust, so that an answer is bounded in bytes as well: pages
 * shrink until each fits.
 */
export async function* pagesOf<P extends { readonly continueToken: string | undefined }>(
  list: (page: { readonly limit: number; readonly continueToken: string | undefined }) => Promise<P>,
): AsyncGenerator<P, void> {
  let limit = objectsPerPage
  let continueToken: string | undefined
  for (;;) {
    const page = await list({ limit, continueToken }).catch((error: unknown) => {
      if (!isApiError(error) || error.reason !== answerTooLarge || limit === 1) throw error
      return undefined
    })
    if (!page) {
      limit = Math.max(1, Math.floor(limit / shrinkBy))
      continue
    }
    yield page
    if (page.continueToken === undefined) return
    continueToken = page.continueToken
  }
}
