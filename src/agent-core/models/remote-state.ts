import { connectionError, refusal } from './http-answer.ts'
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
  url: string,
  { fetch, signal }: { fetch: typeof globalThis.fetch; signal: AbortSignal },
): Promise<RemoteState> {
  const shown = shownSource(url)
  const { address, headers } = withoutLogin(url)
  const answer = await fetch(address, {
    method: 'HEAD',
    headers,
    signal: AbortSignal.any([signal, AbortSignal.timeout(answerMs)]),
  }).catch((error: unknown) => {
    signal.throwIfAborted()
    throw connectionError(error, shown)
  })
  const problem = refusal(answer.status, answer.headers, shown, Date.now())
  if (problem !== undefined) throw problem
  const length = Number(answer.headers.get('content-length') ?? Number.NaN)
  return {
    sizeBytes: Number.isSafeInteger(length) && length > 0 ? length : undefined,
    validator: answer.headers.get('etag') ?? answer.headers.get('last-modified') ?? undefined,
  }
}

/** fetch takes no login in an address; it leaves the header behind at a redirect to another origin. */
function withoutLogin(url: string): { address: string; headers: Record<string, string> } {
  const address = new URL(url)
  const { username, password } = address
  address.username = ''
  address.password = ''
  const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  const headers = { 'accept-encoding': 'identity', 'user-agent': 'metalbar' }
  return username === '' && password === ''
    ? { address: address.href, headers }
    : {
        address: address.href,
        headers: { ...headers, authorization: `Basic ${Buffer.from(login).toString('base64')}` },
      }
}
