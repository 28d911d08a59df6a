import { statusText } from '../download/answer.ts'
import { innermostMessage, ModelError } from '../errors.ts'
import { shownSource } from '../source.ts'
import { GgufError, type GgufHeader } from './gguf.ts'
import { maxHeaderBytes, readHeader } from './header.ts'

export interface HttpHeaderOptions {
  readonly fetch: typeof fetch
  readonly headers?: Readonly<Record<string, string>>
  /** `error`: an answer that leads elsewhere is a failure. */
  readonly redirect?: 'follow' | 'error'
  readonly signal: AbortSignal
  /** How long the request with its answer may take. */
  readonly limitMs?: number
}

/**
 * The header of a file on a server, before it is fetched. One request for the file's first 64 MiB whose answer is read
 * only as far as the header goes, so it does not matter whether the server knows ranges. Throws GgufError, what `fetch`
 * throws as a ModelError, or the signal's reason.
 */
export async function readGgufHeaderOverHttp(url: string, options: HttpHeaderOptions): Promise<GgufHeader> {
  const { fetch, headers, redirect = 'follow', signal, limitMs = 120_000 } = options
  const shown = shownSource(url)
  const ended = new AbortController()
  const timeout = AbortSignal.timeout(limitMs)
  try {
    signal.throwIfAborted()
    const response = await fetch(url, {
      headers: { ...headers, range: `bytes=0-${maxHeaderBytes - 1}`, 'accept-encoding': 'identity' },
      signal: AbortSignal.any([ended.signal, timeout, signal]),
      redirect,
    })
    refuse(response, shown)
    return await readHeader({ name: shown, fileBytes: fileBytesOf(response), read: readerOf(response) })
  } catch (error) {
    signal.throwIfAborted()
    // The fetch that was given may say itself what is wrong.
    if (error instanceof GgufError || error instanceof ModelError) throw error
    throw new GgufError(
      timeout.aborted
        ? `${shown} did not send its GGUF header within ${limitMs / 1_000} s: try again, or fetch the whole file.`
        : `${shown} cannot be read (${innermostMessage(error)}): check the address and the network.`,
      { cause: error },
    )
  } finally {
    // Ends the connection where the body is longer than the header.
    ended.abort()
  }
}

function refuse({ status, headers }: Response, shown: string): void {
  if (status === 416) throw new GgufError(`${shown} is empty, not a GGUF file: fetch it again.`)
  if (status !== 200 && status !== 206) {
    const what = status === 401 || status === 403 ? 'the address and the token' : 'the address'
    throw new GgufError(`${shown} answered ${statusText(status)} instead of a GGUF file: check ${what}.`)
  }
  if (status === 206 && !/^bytes 0-/.test(headers.get('content-range') ?? '')) {
    throw new GgufError(`${shown} answered with a part of the file that is not its beginning: its server is broken.`)
  }
}

/** The length of the whole file, where the server says it in a way to be relied on. */
function fileBytesOf({ status, headers }: Response): number | undefined {
  if (headers.get('content-encoding') !== null) return undefined
  const text = status === 206 ? /\/(\d+)$/.exec(headers.get('content-range') ?? '')?.[1] : headers.get('content-length')
  const bytes = text == null ? NaN : Number(text)
  return Number.isSafeInteger(bytes) ? bytes : undefined
}

/** The beginning of an answer's body: at least so many bytes, unless it ends before. */
function readerOf({ body }: Response): (wanted: number) => Promise<Buffer> {
  const reader = body?.getReader()
  let have = Buffer.alloc(0)
  return async (wanted) => {
    const pieces: Uint8Array[] = [have]
    for (let length = have.length; length < wanted;) {
      const piece = (await reader?.read())?.value
      if (piece === undefined) break
      pieces.push(piece)
      length += piece.length
    }
    have = Buffer.concat(pieces)
    return have
  }
}
