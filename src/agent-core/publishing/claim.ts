import { z } from 'zod'
import type { EndpointSlice } from '../kube/resources.ts'
import { parseJson } from '../util/files.ts'
import type { Edits } from './writes.ts'
import { annotations, heartbeatOf, isOwnedBy, labels, ownerOf, publishedOf, type PublishTarget } from './objects.ts'

const claim = z.object({
  /** The random id of an agent's state folder. */
  node: z.string().min(1),
  /** Rises by one with every take-over. */
  epoch: z.number().int().min(0),
  /** The slice's heartbeat as it was written together with this claim. */
  heartbeat: z.string(),
  /** How people call that machine. */
  displayName: z.string().optional(),
})
export type Claim = z.infer<typeof claim>

const released = z.strictObject({
  /** The slice's heartbeat when the claim was given up; slices of earlier builds do not say it. */
  heartbeat: z.string().optional(),
  /** The node id of the agent that gave it up, by which an uninstall knows its own; slices of earlier builds do not say it. */
  releasedBy: z.string().min(1).optional(),
})
type Released = z.infer<typeof released>

/** The value of the annotation `metalbar.dev/claim`. */
export const claimText = (claim: Claim | Released): string => JSON.stringify(claim)

/** What the annotation says; text that is no claim counts as none: an agent that knows no claims wrote it. */
export function parseClaim(text: string | undefined): Claim | Released | undefined {
  if (text === undefined) return undefined
  const json = parseJson(text)
  return claim.safeParse(json).data ?? released.safeParse(json).data
}

export const isClaim = (found: Claim | Released): found is Claim => 'node' in found

/** The node id of the agent that holds the claim. */
export function holderOf(text: string | undefined): string | undefined {
  const found = parseClaim(text)
  return found && isClaim(found) ? found.node : undefined
}

/** LLMKube's controller and every Metalbar call an agent gone after this long without a new heartbeat. */
const deadAfterMs = 180_000

export type ClaimJudgement =
  /** The caches are not complete yet: absence means nothing. */
  | { readonly kind: 'unknown' }
  | { readonly kind: 'absent' }
  | {
      readonly kind: 'ours'
      readonly epoch: number
      /** Only while others change it again and again. */
      readonly edits?: Edits | undefined
    }
  /** Ours as far as we know, but not renewed for so long that another may have taken it. */
  | { readonly kind: 'uncertain'; readonly epoch: number; readonly message: string }
  /** Ours, made for an InferenceService of this name that is gone: to be deleted and posted anew. */
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
      /** Only while others make it ready again and again. */
      readonly edits?: Edits | undefined
    }
  /** No agent's slice, or another InferenceService's: never touched. */
  | { readonly kind: 'taken'; readonly message: string }

export interface ForeignClaim {
  /** `unclaimed`: written by an agent that knows no claims. `overwritten`: it wrote over ours. */
  readonly kind: 'foreign' | 'unclaimed' | 'overwritten'
  readonly holder: string
  /** Without a new heartbeat, on our own monotonic clock. */
  readonly silentMs: number
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

/** Of the slice that our last answered write left. */
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
  /** How often this claim of ours was written over, this time included. */
  readonly overwrites: number
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
    const isAgents = claim.heartbeat === undefined || hasOtherHeartbeat(slice, claim.heartbeat)
    return isAgents ? foreign('unclaimed', slice, undefined, facts) : readyUnheld(target)
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

/** Of the claim that was taken from our slice by a client that is no agent. */
function epochOfStripped(slice: EndpointSlice, { last }: ClaimFacts): number | undefined {
  const isLast = last !== undefined && slice.metadata.uid === last.uid
  return isLast && !hasOtherHeartbeat(slice, last.heartbeat) ? last.epoch : undefined
}

/** Pods are sent to where nothing listens. */
const readyUnheld = ({ namespace, name }: PublishTarget): ClaimJudgement => ({
  kind: 'dead',
  epoch: 0,
  ready: true,
  message: `The EndpointSlice of InferenceService ${namespace}/${name} was made ready by something else while no agent held it; it can be taken over.`,
})

function foreign(
  kind: ForeignClaim['kind'],
  slice: EndpointSlice,
  claim: Claim | undefined,
  { silentMs, overwrites, target }: ClaimFacts,
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
      message: `InferenceService ${service} was served by ${holder}, which has been silent for ${seconds(silentMs)} s; it can be taken over.`,
    }
  }
  const deadInMs = deadAfterMs - silentMs
  const wait = `it is taken over here when that agent is silent for ${seconds(deadAfterMs)} s`
  const message = {
    foreign: `InferenceService ${service} is served by ${holder}; ${wait}.`,
    unclaimed: `InferenceService ${service} is published by ${holder}, which states no claim; ${wait}.`,
    overwritten:
      overwrites > 1
        ? `InferenceService ${service} is claimed here but ${holder} keeps writing over it; leave ${target.name} out of that agent's --inference-service-allowlist.`
        : `InferenceService ${service} is claimed here but ${holder}, which knows no claims, wrote over it; ${wait}.`,
  }[kind]
  return { kind, holder, silentMs, deadInMs, message }
}

const takenMessage = (slice: EndpointSlice, owningService: string | undefined): string =>
  owningService === undefined
    ? `EndpointSlice ${nameOf(slice)} has the name this InferenceService needs but was not made by an agent; delete it or rename the InferenceService.`
    : `EndpointSlice ${nameOf(slice)} belongs to InferenceService ${owningService}, whose name maps to the same Service; rename one of the two.`

const nameOf = ({ metadata }: EndpointSlice): string => `${metadata.namespace}/${metadata.name}`
const seconds = (ms: number): number => Math.round(ms / 1000)
