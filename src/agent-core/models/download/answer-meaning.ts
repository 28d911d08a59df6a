import { ModelError, remoteRepairMs } from '../errors.ts'
import { refusal } from '../http-answer.ts'
import type { ByteRange } from './byte-ranges.ts'
import type { Remote } from './partial-record.ts'

/** What an answer says of the file and where its bytes belong. */
export type Meaning =
  /** The body is the part that begins at `start`; `end` is not beyond what was asked for. */
  | { readonly kind: 'part'; readonly start: number; readonly end: number; readonly remote: Remote }
  /** The body is the whole file. */
  | { readonly kind: 'whole'; readonly remote: Remote; readonly encoding: string | undefined }
  /** The server has another file than was begun in the partial file. */
  | { readonly kind: 'changed' }
  /** Only the whole file can be had. */
  | { readonly kind: 'no-ranges' }
  | { readonly kind: 'refused'; readonly error: ModelError }

export interface Question {
  /** Absent where the whole file was asked for. */
  readonly range: ByteRange | undefined
  /** What the server said earlier. */
  readonly known: Remote
  /** Whether bytes of the file are here already. */
  readonly begun: boolean
  readonly shown: string
  readonly now: number
}

/** Servers and proxies that do not support ranges answer with one of these. */
const rangeRefusals: ReadonlySet<number> = new Set([400, 405, 416, 501])

export function meaningOf(
  { status, headers }: { status: number; headers: Headers },
  { range, known, begun, shown, now }: Question,
): Meaning {
  const encoding = encodingOf(headers)
  if (range !== undefined) {
    if (status === 416 && begun) return { kind: 'changed' }
    if (rangeRefusals.has(status)) return { kind: 'no-ranges' }
    if (status === 206) {
      const contradiction = contradictionIn(headers, encoding)
      if (contradiction !== undefined) return { kind: 'refused', error: contradictory(shown, contradiction) }
      const part = contentRange(headers.get('content-range'))
      if (part === undefined && headers.get('content-range') === null) {
        return { kind: 'refused', error: refusal(status, headers, shown, now) ?? misplaced(shown) }
      }
      if (part?.start !== range[0] || encoding !== undefined) return { kind: 'no-ranges' }
      const remote = remoteOf(headers, part.total ?? known.sizeBytes)
      if (begun && differs(known, remote)) return { kind: 'changed' }
      return { kind: 'part', start: part.start, end: Math.min(part.end, range[1]), remote }
    }
  }
  const error = refusal(status, headers, shown, now)
  if (error !== undefined) return { kind: 'refused', error }
  const remote = remoteOf(headers, encoding === undefined ? contentLength(headers) : undefined)
  if (begun) return differs(known, remote) ? { kind: 'changed' } : { kind: 'no-ranges' }
  return { kind: 'whole', remote, encoding }
}

/**
 * What makes sure that a part is of the same file (RFC 9110, 13.1.5): a strong ETag, else a date that is older than
 * the answer it came with.
 */
export function validator({ etag, lastModified }: Remote): string | undefined {
  return etag !== undefined && !etag.startsWith('W/') ? etag : lastModified
}

function remoteOf(headers: Headers, sizeBytes: number | undefined): Remote {
  const etag = headers.get('etag')
  const lastModified = headers.get('last-modified')
  const age = Date.parse(headers.get('date') ?? '') - Date.parse(lastModified ?? '')
  return {
    ...(sizeBytes === undefined ? {} : { sizeBytes }),
    ...(etag === null ? {} : { etag }),
    // A file that changes twice in one second has one date for two contents.
    ...(lastModified === null || !(age >= 1000) ? {} : { lastModified }),
  }
}

/** A header that one of the answers lacks is not compared. */
function differs(known: Remote, remote: Remote): boolean {
  const other = <T>(a: T | undefined, b: T | undefined): boolean => a !== undefined && b !== undefined && a !== b
  if (other(known.sizeBytes, remote.sizeBytes)) return true
  if (known.etag !== undefined && remote.etag !== undefined) return known.etag !== remote.etag
  return other(known.lastModified, remote.lastModified)
}

function contentRange(header: string | null): { start: number; end: number; total: number | undefined } | undefined {
  const match = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(header?.trim() ?? '')
  if (match === null) return undefined
  const [start, last, total] = [Number(match[1]), Number(match[2]), match[3] === '*' ? undefined : Number(match[3])]
  if (![start, last, total ?? 0].every(Number.isSafeInteger) || last < start) return undefined
  return { start, end: last + 1, total }
}

/** What a part says of itself that cannot all be true: read on, such a body would end too early or never. */
function contradictionIn(headers: Headers, encoding: string | undefined): string | undefined {
  const stated = headers.get('content-range')
  const match = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(stated?.trim() ?? '')
  if (match === null) return undefined
  const [start, last, total] = [Number(match[1]), Number(match[2]), match[3] === '*' ? Infinity : Number(match[3])]
  const length = encoding === undefined ? contentLength(headers) : undefined
  const isLongAsSaid = length === undefined || length === last - start + 1
  if (start <= last && last < total && isLongAsSaid) return undefined
  return `Content-Range ${stated ?? ''}${isLongAsSaid ? '' : ` with Content-Length ${length}`}`
}

/** Of the body as it is sent. */
export function contentLength(headers: Headers): number | undefined {
  const length = headers.get('content-length')
  const bytes = Number(length)
  return length !== null && Number.isSafeInteger(bytes) && bytes >= 0 ? bytes : undefined
}

function encodingOf(headers: Headers): string | undefined {
  const encoding = headers.get('content-encoding')?.trim().toLowerCase()
  return encoding === undefined || encoding === '' || encoding === 'identity' ? undefined : encoding
}

function contradictory(shown: string, what: string): ModelError {
  return new ModelError(
    'transient',
    'HttpRefused',
    `${shown} answered with a part that contradicts itself (${what.slice(0, 200)}): see to the server, or to a proxy in between.`,
    { retryAfterMs: remoteRepairMs },
  )
}

function misplaced(shown: string): ModelError {
  return new ModelError('transient', 'HttpRefused', `${shown} sent another part than asked for: check spec.source.`, {
    retryAfterMs: remoteRepairMs,
  })
}
