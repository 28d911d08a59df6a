import { isApiError } from './api-error.ts'
import { answerTooLarge, type KubeApi, type ListPage, type ListQuery } from './kube-api.ts'
import type { Resource } from './resources.ts'

const objectsPerPage = 500
/** A page whose answer is too large is asked for again with so many objects less. */
const shrinkBy = 8

/**
 * Every object of a list, in pages that are bounded in number and, as no answer is larger than `maxAnswerBytes`, in bytes: what
 * others put into their objects is not ours to trust. Throws ApiError.
 */
export async function* pagesOf(
  api: Pick<KubeApi, 'list'>,
  resource: Resource,
  query: Omit<ListQuery, 'limit' | 'continueToken'>,
  signal?: AbortSignal,
): AsyncGenerator<ListPage, void> {
  let limit = objectsPerPage
  let continueToken: string | undefined
  for (;;) {
    try {
      const page = await api.list(resource, { ...query, limit, continueToken }, signal)
      yield page
      if (page.continueToken === undefined) return
      continueToken = page.continueToken
    } catch (error) {
      if (!isApiError(error) || error.reason !== answerTooLarge || limit === 1) throw error
      limit = Math.max(1, Math.floor(limit / shrinkBy))
    }
  }
}
