import { refKey } from '../util/object-key.ts'
import { isDeletable, isHeld, type ClaimJudgement } from './claim.ts'
import type { ClaimedSlices } from './claimed-slices.ts'
import type { EndpointsWriter } from './endpoints-writer.ts'
import type { Edits } from './foreign-edits.ts'
import type { Publication, Published, PublishTarget } from './objects.ts'
import { publishedOf, sliceIsCurrent } from './slice-object.ts'
import type { ServiceView, ServiceWriter } from './service-writer.ts'

/** What the caches say; costs no request. */
export interface PublicationView {
  readonly claim: ClaimJudgement
  readonly service: ServiceView
  /** True also where there is no Service of ours to be out of date. */
  readonly serviceUpToDate: boolean
  /** Only while others change the Service again and again. */
  readonly serviceEdits: Edits | undefined
  /** False while Endpoints, or details of a slice that is ours, tell something else than the slice's address. */
  readonly complete: boolean
  /** The address that the slice gives pods now, whichever client wrote it. */
  readonly published: Published | undefined
  /** There is something that `Publisher.unpublish` would delete. */
  readonly present: boolean
  /** Milliseconds until time alone may change this view. */
  readonly recheckInMs: number | undefined
}

/** Before the first list. */
export const unknownView: PublicationView = {
  claim: { kind: 'unknown' },
  service: { kind: 'absent' },
  serviceUpToDate: true,
  serviceEdits: undefined,
  complete: true,
  published: undefined,
  present: false,
  recheckInMs: undefined,
}

interface Parts {
  readonly slices: Pick<ClaimedSlices, 'view'>
  readonly service: Pick<ServiceWriter, 'view' | 'edits' | 'isCurrent'>
  readonly endpoints: Pick<EndpointsWriter, 'isCurrent' | 'has'>
}

/** `publicationOf`: what would be written for an address. */
export function publicationView(
  target: PublishTarget,
  { slices, service: services, endpoints }: Parts,
  publicationOf: (published: Published | undefined) => Publication,
): PublicationView {
  const { slice, claim, recheckInMs } = slices.view(target)
  const published = slice && publishedOf(slice)
  const publication = publicationOf(published)
  const { service, recheckInMs: serviceRecheckInMs } = services.view(target)
  const serviceEdits = services.edits(target, publication)
  return {
    claim,
    service,
    serviceUpToDate: services.isCurrent(target, publication),
    serviceEdits,
    complete:
      !isHeld(claim) || (endpoints.isCurrent(publication) && slice !== undefined && sliceIsCurrent(slice, publication)),
    published,
    present: isDeletable(claim) || endpoints.has(refKey(target)),
    recheckInMs: serviceRecheckInMs ?? soonest(recheckInMs, isHeld(claim) ? serviceEdits?.forgottenInMs : undefined),
  }
}

function soonest(...times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}
