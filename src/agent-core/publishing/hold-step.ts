import type { EndpointSlice } from '../kube/resources.ts'
import { isHeld, type ClaimJudgement } from './claim.ts'
import type { Published, PublishTarget } from './objects.ts'
import { publishedOf } from './slice-object.ts'
import { done, lostTo, type WriteResult } from './write-result.ts'

const firstEpoch = 1

/** A write that leaves the claim with us: `renew` touches nothing but the metadata. */
export type HoldStep =
  | { readonly do: 'create' | 'write'; readonly epoch: number; readonly published: Published | undefined }
  | { readonly do: 'renew'; readonly epoch: number }
  | { readonly do: 'stop'; readonly result: WriteResult }

/** What a decision is based on. */
export interface SliceFacts {
  readonly claim: ClaimJudgement
  readonly slice: EndpointSlice | undefined
  readonly target: PublishTarget
  /** Of the claim that we hold for this InferenceService, whether or not its slice is there. */
  readonly heldEpoch: number | undefined
}

/** Takes a slice that is free or was released; verifies a slice of ours. */
export const claimStep = (facts: SliceFacts): HoldStep =>
  facts.slice && facts.claim.kind === 'released'
    ? { do: 'write', epoch: firstEpoch, published: undefined }
    : renewStep(facts)

/** Says that we live. Posted again without an address: whether the server answers is for others to say. */
export const renewStep = ({ claim, slice, target, heldEpoch }: SliceFacts): HoldStep =>
  slice ? keepStep(claim, target) : { do: 'create', epoch: heldEpoch ?? firstEpoch, published: undefined }

/** Takes what its dead holder has. */
export function takeOverStep({ claim, target }: SliceFacts): HoldStep {
  if (claim.kind === 'released') return { do: 'write', epoch: firstEpoch, published: undefined }
  if (claim.kind === 'dead') return { do: 'write', epoch: claim.epoch + 1, published: undefined }
  return keepStep(claim, target)
}

/** Says where the server listens, where the slice does not say so already. */
export function publishStep(
  { claim, slice, target, heldEpoch }: SliceFacts,
  published: Published,
  isCurrent: (slice: EndpointSlice, epoch: number) => boolean,
): HoldStep {
  if (!slice && heldEpoch !== undefined) return { do: 'create', epoch: heldEpoch, published }
  if (!slice || !isHeld(claim)) return { do: 'stop', result: lostTo(claim, target) }
  return isCurrent(slice, claim.epoch) ? { do: 'stop', result: done } : { do: 'write', epoch: claim.epoch, published }
}

/** Not ready any more. */
export function withdrawStep({ claim, slice, target }: SliceFacts): HoldStep {
  if (!slice) return { do: 'stop', result: done }
  if (!isHeld(claim)) return { do: 'stop', result: lostTo(claim, target) }
  const shown = publishedOf(slice)
  if (shown?.ready !== true) return { do: 'stop', result: done }
  return { do: 'write', epoch: claim.epoch, published: { ...shown, ready: false } }
}

const keepStep = (claim: ClaimJudgement, target: PublishTarget): HoldStep =>
  isHeld(claim) ? { do: 'renew', epoch: claim.epoch } : { do: 'stop', result: lostTo(claim, target) }
