import type { EndpointSlice } from '../kube/resources.ts'
import { refKey } from '../util/object-key.ts'
import {
  annotations,
  type Claim,
  heartbeatOf,
  isClaim,
  isOwnedBy,
  labels,
  ownerOf,
  parseClaim,
  publishedOf,
  type PublishTarget,
  type PublishedState,
} from './objects.ts'
import { OwnWrites, type WriteResult } from './writes.ts'

/** LLMKube's controller and every Metalbar call an agent gone after this long without a new heartbeat. */
export const deadAfterMs = 180_000

export type ClaimJudgement =
  /** The caches are not complete yet: absence means nothing. */
  | { readonly kind: 'unknown' }
  | { readonly kind: 'absent' }
  | {
      readonly kind: 'ours'
      readonly epoch: number
      /** Until what others changed is put right again, in milliseconds. */
      readonly mendInMs?: number
    }
  /** Ours as far as we know, but another agent may have taken it since the last renewal. */
  | { readonly kind: 'uncertain'; readonly epoch: number; readonly message: string }
  /** Ours, made for an InferenceService of this name that is gone: to be deleted and posted again. */
  | { readonly kind: 'previous'; readonly message: string }
  /** Given up in good order: anyone may take it at once. */
  | { readonly kind: 'released' }
  | ForeignClaim
  /** An agent that can serve takes it over; any other agent withdraws it. */
  | {
      readonly kind: 'dead'
      readonly epoch: number
      readonly ready: boolean
      readonly message: string
      /** Until it is withdrawn again, in milliseconds, where something else has made it ready. */
      readonly mendInMs?: number
    }
  /** No agent's slice, or another InferenceService's: never touched. */
  | { readonly kind: 'taken'; readonly message: string; readonly isNameTooLong?: true }

export interface ForeignClaim {
  /** `unclaimed`: written by an agent that knows no claims. `overwritten`: it wrote over ours. */
  readonly kind: 'foreign' | 'unclaimed' | 'overwritten'
  readonly holder: string
  /** When the claim would count as dead if the holder stays silent. */
  readonly deadInMs: number
  readonly message: string
}

export const isHeld = (claim: ClaimJudgement): claim is Extract<ClaimJudgement, { kind: 'ours' | 'uncertain' }> =>
  claim.kind === 'ours' || claim.kind === 'uncertain'

/** The first agent that comes may claim or delete a released slice. */
export const isDeletable = (claim: ClaimJudgement): boolean =>
  isHeld(claim) || claim.kind === 'previous' || claim.kind === 'released'

/** Another agent's, or none that we may take for ours. */
export const isElsewhere = ({ kind }: ClaimJudgement): boolean =>
  kind === 'foreign' || kind === 'unclaimed' || kind === 'overwritten' || kind === 'dead'

/** What our last answered write left in the slice. */
export interface LastWritten {
  readonly uid: string
  readonly epoch: number
  readonly heartbeat: string
}

export interface ClaimFacts {
  /** Our node id. */
  readonly self: string
  readonly target: PublishTarget
  /** Undefined = we have not written since the start, or let go of it. */
  readonly last: LastWritten | undefined
  /** How long the slice's heartbeat has not changed while we watched. */
  readonly silentMs: number
}

/** Whose slice it is. Compares no two machines' clocks. */
export function judgeClaim(slice: EndpointSlice | undefined, facts: ClaimFacts): ClaimJudgement {
  const { target, self } = facts
  if (!slice) return { kind: 'absent' }
  const owningService = slice.metadata.labels[labels.inferenceService] ?? ownerOf(slice)?.name
  if (owningService !== target.name) return { kind: 'taken', message: takenMessage(slice, owningService) }
  const claim = parseClaim(slice.metadata.annotations[annotations.claim])
  const published = publishedOf(slice)
  if (claim && !isClaim(claim)) {
    if (published?.ready !== true) return { kind: 'released' }
    // A release withdraws: an address that is ready again comes from an agent that did not read the claim, or from no agent.
    return hasOtherHeartbeat(slice, claim.heartbeat)
      ? foreign('unclaimed', slice, undefined, facts)
      : readyUnheld(target)
  }
  const epoch = claim?.epoch ?? epochOfStripped(slice, facts)
  if (epoch === undefined) return foreign('unclaimed', slice, undefined, facts)
  if (claim && claim.node !== self) return foreign('foreign', slice, claim, facts)
  if (claim && hasOtherHeartbeat(slice, claim.heartbeat)) return foreign('overwritten', slice, claim, facts)
  if (ownerOf(slice) !== undefined && !isOwnedBy(slice, target)) {
    return {
      kind: 'previous',
      message: `EndpointSlice ${nameOf(slice)} was made for an earlier InferenceService of this name; it is replaced.`,
    }
  }
  return { kind: 'ours', epoch }
}

/**
 * An agent that knows no claims keeps our annotation and writes a heartbeat of its own. Any other change was not made by an agent,
 * and is put right.
 */
const hasOtherHeartbeat = (slice: EndpointSlice, written: string): boolean => {
  const heartbeat = heartbeatOf(slice)
  return heartbeat !== '' && heartbeat !== written
}

/** The epoch of a claim of ours whose annotation was removed by a client that is no agent. */
function epochOfStripped(slice: EndpointSlice, { last }: ClaimFacts): number | undefined {
  const isLast = last !== undefined && slice.metadata.uid === last.uid
  return isLast && !hasOtherHeartbeat(slice, last.heartbeat) ? last.epoch : undefined
}

/** Judges a ready slice without a holder: it sends pods where nothing listens. */
const readyUnheld = ({ namespace, name }: PublishTarget): ClaimJudgement => ({
  kind: 'dead',
  epoch: 0,
  ready: true,
  message: `The EndpointSlice of InferenceService ${namespace}/${name} was made ready by something else while no agent held it; this machine can take over.`,
})

function foreign(
  kind: ForeignClaim['kind'],
  slice: EndpointSlice,
  claim: Claim | undefined,
  { silentMs, target }: ClaimFacts,
): ClaimJudgement {
  const published = publishedOf(slice)
  const holder =
    kind === 'foreign' && claim
      ? (claim.displayName ?? claim.node)
      : published
        ? `the agent at ${published.address}`
        : 'an unknown agent'
  const service = `${target.namespace}/${target.name}`
  if (silentMs >= deadAfterMs) {
    return {
      kind: 'dead',
      epoch: claim?.epoch ?? 0,
      ready: published?.ready === true,
      message: `InferenceService ${service} was served by ${holder}, which has been silent for ${seconds(silentMs)} s; this machine can take over.`,
    }
  }
  const deadInMs = deadAfterMs - silentMs
  const wait = `this machine takes over when that agent has been silent for ${seconds(deadAfterMs)} s`
  const message = {
    foreign: `InferenceService ${service} is served by ${holder}; ${wait}.`,
    unclaimed: `InferenceService ${service} is published by ${holder}, which has written no claim; ${wait}.`,
    overwritten: `InferenceService ${service} is claimed here but ${holder}, which does not know about claims, overwrote it; ${wait}. Leave ${target.name} out of its --inference-service-allowlist.`,
  }[kind]
  return { kind, holder, deadInMs, message }
}

const takenMessage = (slice: EndpointSlice, owningService: string | undefined): string =>
  owningService === undefined
    ? `EndpointSlice ${nameOf(slice)} has the name this InferenceService needs but was not made by an agent; delete it or rename the InferenceService.`
    : `EndpointSlice ${nameOf(slice)} belongs to InferenceService ${owningService}, whose name maps to the same Service; rename one of the two.`

const nameOf = ({ metadata }: EndpointSlice): string => `${metadata.namespace}/${metadata.name}`
const seconds = (ms: number): number => Math.round(ms / 1000)

/** An agent that lost a slice by accident posts it again at once; other agents wait for this long. */
const holderGraceMs = 10_000

/** What was judged: `isEdited` says whether the slice tells something else than this, and all that goes with it. */
interface JudgedSlice {
  readonly slice: EndpointSlice
  readonly silentMs: number
  readonly isEdited: (state: PublishedState) => boolean
}

/** Judges the slice of one InferenceService by its earlier versions and by our own writes. */
export class ClaimMemory {
  readonly #self: string
  readonly #now: () => number
  readonly #writes: OwnWrites<PublishedState>
  /** Whether a slice that no living agent holds is ready. */
  readonly #unheld: OwnWrites<boolean>
  #last: LastWritten | undefined
  /** A living holder whose slice we have seen, and since when that is gone. */
  #rival: { readonly uid: string; readonly holder: string; readonly goneAt: number | undefined } | undefined

  /** `self` is our node id. */
  constructor(self: string, monotonicNow: () => number) {
    this.#self = self
    this.#now = monotonicNow
    this.#writes = new OwnWrites(monotonicNow)
    this.#unheld = new OwnWrites(monotonicNow)
  }

  judge({ slice, silentMs, isEdited }: JudgedSlice, target: PublishTarget): ClaimJudgement {
    const claim = judgeClaim(slice, { self: this.#self, target, last: this.#last, silentMs })
    this.#rival = claim.kind === 'foreign' ? { uid: target.uid, holder: claim.holder, goneAt: undefined } : undefined
    if (isLost(claim)) this.#last = undefined
    if (claim.kind !== 'ours' && claim.kind !== 'dead') return claim
    const mendInMs =
      claim.kind === 'ours' ? this.#writes.mendInMs(isEdited) : this.#unheld.mendInMs((ready) => ready !== claim.ready)
    return mendInMs > 0 ? { ...claim, mendInMs } : claim
  }

  /** A slice that vanished under its living holder is the holder's to post again; others wait a moment. */
  judgeAbsence(target: PublishTarget): { readonly kind: 'absent' } | ForeignClaim {
    const rival = this.#rival
    if (rival?.uid !== target.uid) return { kind: 'absent' }
    const goneAt = rival.goneAt ?? this.#now()
    this.#rival = { ...rival, goneAt }
    const silentMs = this.#now() - goneAt
    if (silentMs >= holderGraceMs) return { kind: 'absent' }
    const message = `The EndpointSlice of InferenceService ${refKey(target)} is gone; for ${holderGraceMs / 1000} s only ${rival.holder}, which held it, may take it again.`
    return { kind: 'foreign', holder: rival.holder, deadInMs: holderGraceMs - silentMs, message }
  }

  /** To be called before the request, whose answer may get lost. */
  writing(state: PublishedState): void {
    this.#writes.writing(state)
  }

  /** This and nothing else is what our writes have left. */
  wrote(state: PublishedState, last: LastWritten): void {
    this.#writes.wrote(state)
    this.#last = last
  }

  /** The slice of a dead holder, or of none, is no longer ready. */
  withdrewUnheld(): void {
    this.#unheld.writing(false)
    this.#unheld.wrote(false)
  }

  /** Only the heartbeat was written: the rest of the slice is as it was before. */
  renewed(last: LastWritten): void {
    this.#last = last
  }

  forgetWrites(): void {
    this.#writes.forget()
    this.#last = undefined
  }
}

/** Another agent has it or may take it: an earlier write of ours is no proof that it is ours. */
const isLost = ({ kind }: ClaimJudgement): boolean =>
  kind === 'foreign' || kind === 'unclaimed' || kind === 'overwritten' || kind === 'dead' || kind === 'released'

/** Why a write was not ours to make. */
export function lostTo(claim: ClaimJudgement, target: PublishTarget): WriteResult {
  if (claim.kind === 'taken') return claim
  if ('message' in claim) return { kind: 'lost', message: claim.message }
  return {
    kind: 'lost',
    message: `InferenceService ${refKey(target)} is no longer claimed by this machine; it is reconciled again at once.`,
  }
}
