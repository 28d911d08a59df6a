import type { ConnectionState } from '../../contract/cluster.ts'
import { answerTooLarge, isApiError, listTooLong, rootMessage } from './api-error.ts'
import { ownFailure } from '../util/error-code.ts'
import type { Resource } from './resources.ts'

/** `known`: something was read before, and is used until the cluster is back. */
export function failureState(error: unknown, known: boolean): ConnectionState {
  if (isApiError(error, 401)) return 'unauthorized'
  if (isApiError(error, 403)) return 'denied'
  if (isApiError(error, 404)) return 'absent'
  return known ? 'stale' : 'offline'
}

/** For people. */
export function explainFailure(state: ConnectionState, resource: Resource, server: string, error: unknown): string {
  const words = isApiError(error) ? error.detail : rootMessage(error)
  if (isApiError(error) && [answerTooLarge, listTooLong].includes(error.reason)) {
    return `The ${resource.plural} of the cluster cannot be read (${words}); what runs keeps serving by what was known before. Delete what nobody needs there, or watch one namespace with --namespace.`
  }
  const own = ownFailure(error)
  if (own !== undefined) {
    return `The cluster at ${server} cannot be asked: ${own}. What runs keeps serving, and it is asked again and again.`
  }
  switch (state) {
    case 'unauthorized':
      return `The cluster does not accept these credentials (${words}); log in again or choose another context.`
    case 'denied':
      return `These credentials may not read ${resource.plural} (${words}); ask for the rights to get, list and watch them.`
    case 'stale':
      return `The cluster does not answer (${words}); what runs keeps serving, and the last known state is used until it is back.`
    default:
      return `The cluster at ${server} does not answer (${words}); check that it runs and that this machine reaches it.`
  }
}
