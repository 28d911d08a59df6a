import { PaceGuard } from './download/pace-guard.ts'
import { discard, send, type Asked } from './download/request.ts'
import type { Transport } from './download/transport.ts'
import { refusal } from './http-answer.ts'
import { shownSource } from './source.ts'

export interface RemoteState {
  readonly sizeBytes: number | undefined
  /** The ETag, else the time of the last change. */
  readonly validator: string | undefined
}

/** A server that has a file says so within this. */
const answerMs = 30_000

/** What a server says of a file without sending it. Throws ModelError, or the signal's reason. */
export async function remoteState(
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
