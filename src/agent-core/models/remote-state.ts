import { PaceGuard } from './download/pace-guard.ts'
import { discard, send, type Asked } from './download/request.ts'
import type { Transport } from './download/transport.ts'
import { refusal } from './http-answer.ts'
import type { Manifest } from './manifest.ts'
import type { RemoteSource } from './remote-file.ts'
import { shownSource } from './source.ts'

export interface RemoteState {
  readonly sizeBytes: number | undefined
  /** The ETag, else the time of the last change. */
  readonly validator: string | undefined
}

/** A server that has a file says so within this. */
const answerMs = 30_000

/** What a server says of a file without sending it. Throws ModelError, or the signal's reason. */
async function remoteState(
  { url, credentials }: Pick<Asked, 'url' | 'credentials'>,
  { transport, signal }: { transport: Transport; signal: AbortSignal },
): Promise<RemoteState> {
  const shown = shownSource(url)
  using guard = new PaceGuard(answerMs, shown)
  const { status, headers, body } = await send({ method: 'HEAD', url, credentials }, { transport, signal, guard })
  discard(body)
  const problem = refusal(status, headers, shown, Date.now())
  if (problem !== undefined) throw problem
  const length = Number(headers.get('content-length') ?? Number.NaN)
  return {
    sizeBytes: Number.isSafeInteger(length) && length > 0 ? length : undefined,
    validator: headers.get('etag') ?? headers.get('last-modified') ?? undefined,
  }
}

/** What servers say of the files of a source, by their paths; of a Hub's files its listing says all. Throws ModelError, or the signal's reason. */
export async function remoteStates(
  files: RemoteSource['files'],
  how: { transport: Transport; signal: AbortSignal },
): Promise<ReadonlyMap<string, RemoteState>> {
  const states = new Map<string, RemoteState>()
  for (const file of files) if (file.hub === undefined) states.set(file.path, await remoteState(file, how))
  return states
}

/**
 * Whether a source still holds what was stored of it: `same` where a checksum or validator of every file says so, `perhaps` where nothing
 * speaks against it.
 */
export function compareWithStored(
  files: RemoteSource['files'],
  states: ReadonlyMap<string, RemoteState>,
  manifest: Manifest,
): 'same' | 'perhaps' | 'different' {
  if (files.length !== manifest.files.length) return 'different'
  let isProven = true
  for (const file of files) {
    const known = manifest.files.find(({ path }) => path === file.path)
    if (!known) return 'different'
    const { sizeBytes, validator } = states.get(file.path) ?? { sizeBytes: file.sizeBytes, validator: file.blob }
    const isHashed = file.hub !== undefined && file.sha256 !== undefined
    const [says, has] = isHashed ? [file.sha256, known.sha256] : [validator, known.etag]
    if (sizeBytes !== undefined && sizeBytes !== known.sizeBytes) return 'different'
    if (says === undefined || has === undefined) isProven = false
    else if (says !== has) return 'different'
  }
  return isProven ? 'same' : 'perhaps'
}
