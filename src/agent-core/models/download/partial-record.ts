import { clipped, type ByteRange } from './byte-ranges.ts'
import type { PartialState } from './partial-state.ts'

/** What the file is part of. */
export interface Identity {
  readonly urlSha256: string
  readonly wanted: PartialState['wanted']
}

/** What the server said of the file. */
export type Remote = PartialState['remote']

/** Why the record beside a partial file of that size cannot be gone on from, where it cannot. */
export function whyUnusable(state: PartialState, identity: Identity, size: number): string | undefined {
  return otherFile(state, identity) ?? (state.prefix.bytes > size ? 'it is shorter than its record says' : undefined)
}

/** What is there, by the record. */
export function continued(
  state: PartialState,
  { urlSha256, wanted }: Identity,
  size: number,
): { readonly ranges: readonly ByteRange[]; readonly remote: Remote } {
  const { sizeBytes } = state.remote
  // Without a checksum only the server can tell whether it is still the same file: so there is something to ask it for.
  const unasked = wanted.sha256 === undefined && sizeBytes !== undefined ? sizeBytes - 1 : size
  const fromElsewhere = sizeBytes === undefined ? {} : { sizeBytes }
  return {
    ranges: clipped(state.ranges, Math.min(size, unasked)),
    remote: state.urlSha256 === urlSha256 ? state.remote : fromElsewhere,
  }
}

/** Why a record is not of this file. The same content may come from another address. */
function otherFile(state: PartialState, { urlSha256, wanted }: Identity): string | undefined {
  const { sha256, sizeBytes, etag } = wanted
  const known = sha256 !== undefined && state.wanted.sha256 !== undefined
  if (known && sha256 !== state.wanted.sha256) return 'it is of a file with another checksum'
  if (!known && urlSha256 !== state.urlSha256) return 'it is of another address'
  if (!known && etag !== state.wanted.etag) return 'the file changed on the server'
  const size = state.remote.sizeBytes ?? state.wanted.sizeBytes
  if (sizeBytes !== undefined && size !== undefined && size !== sizeBytes) return 'it is of a file of another size'
  return undefined
}
