import { refKey } from '../util/object-key.ts'
import type { ClaimJudgement } from './claim.ts'
import type { PublishTarget } from './objects.ts'

/** How a write ended. What the cluster does not answer or does not permit is thrown as ApiError instead. */
export type WriteResult =
  /** It is so now, whether or not it needed a request. */
  | { readonly kind: 'done' }
  /** The claim is not ours, or not ours any more. */
  | { readonly kind: 'lost'; readonly message: string }
  /** A foreign object has our name. */
  | { readonly kind: 'taken'; readonly message: string }
  /** The server does not accept the object; in its words. */
  | { readonly kind: 'refused'; readonly message: string }
  /** Not attempted, because the state it was based on is out of date: read again. */
  | { readonly kind: 'dropped'; readonly message: string }

export const done: WriteResult = { kind: 'done' }

export const dropped: WriteResult = {
  kind: 'dropped',
  message: 'The write was dropped because what it was based on is out of date.',
}

/** Why a write was not ours to make. */
export function lostTo(claim: ClaimJudgement, target: PublishTarget): WriteResult {
  if (claim.kind === 'taken') return claim
  if ('message' in claim) return { kind: 'lost', message: claim.message }
  return {
    kind: 'lost',
    message: `InferenceService ${refKey(target)} is not claimed by this machine any more; it is looked at again at once.`,
  }
}
