import { PaceGuard } from './download/pace-guard.ts'
import { discard, send, type Asked } from './download/request.ts'
import type { Transport } from './download/transport.ts'
import { refusal } from './http-answer.ts'
import type { Manifest } from './manifest.ts'
import type { RemoteSource } from './remote-file.ts'
import { shownSource } from './source.ts'

interface RemoteState {
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

export interface Sameness {
  readonly isSame: boolean
  /** What the server calls its files, by their paths. */
  readonly validators: ReadonlyMap<string, string>
}

/** Whether a source still holds what was stored of it, as far as its server tells. Throws ModelError, or the signal's reason. */
export async function sameAsStored(
  files: RemoteSource['files'],
  manifest: Manifest,
  { transport, signal }: { transport: Transport; signal: AbortSignal },
): Promise<Sameness> {
  const validators = new Map<string, string>()
  let isSame = files.length === manifest.files.length
  for (const file of files) {
    const known = manifest.files.find(({ path }) => path === file.path)
    if (!known) return { isSame: false, validators }
    if (file.hub !== undefined) {
      if (file.sizeBytes !== undefined && file.sizeBytes !== known.sizeBytes) isSame = false
      const [wanted, has] = file.sha256 === undefined ? [file.blob, known.etag] : [file.sha256, known.sha256]
      if (wanted !== undefined && has !== undefined && wanted !== has) isSame = false
      continue
    }
    const { sizeBytes, validator } = await remoteState(file, { transport, signal })
    if (sizeBytes !== undefined && sizeBytes !== known.sizeBytes) isSame = false
    if (validator === undefined) continue
    validators.set(file.path, validator)
    if (known.etag !== undefined && validator !== known.etag) isSame = false
  }
  return { isSame, validators }
}
