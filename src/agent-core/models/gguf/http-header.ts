import { Turns } from '../../util/turns.ts'
import { statusText } from '../download/answer.ts'
import { innermostMessage, ModelError } from '../errors.ts'
import { shownSource } from '../source.ts'
import { GgufError, type GgufHeader } from './gguf.ts'
import { parseHeader } from './header.ts'
import { maxHeaderBytes, type Wanted } from './sections.ts'

export interface HttpHeaderOptions {
  /** Default: the one of this process. */
  readonly fetch?: typeof fetch
  readonly headers?: Readonly<Record<string, string>>
  /** `error`: an answer that leads elsewhere is a failure. */
  readonly redirect?: 'follow' | 'error'
  readonly signal?: AbortSignal
  /** How long the request with its answer may take. */
  readonly limitMs?: number
}

/**
 * The header of a file on a server, before it is fetched. One request for the file's first 64 MiB whose answer is read
 * only as far as the header goes, so it does not matter whether the server knows ranges. The bytes are parsed as they
 * come, here and not in a worker thread: each piece takes well under a millisecond. Throws GgufError, what `fetch` throws as a
 * ModelError, or the signal's reason.
 */
export async function readGgufHeaderOverHttp(url: string, options: HttpHeaderOptions = {}): Promise<GgufHeader> {
  const { signal, limitMs = 120_000, redirect = 'follow' } = options
  const shown = shownSource(url)
  const ended = new AbortController()
  const timeout = AbortSignal.timeout(limitMs)
  const signals = [ended.signal, timeout, ...(signal === undefined ? [] : [signal])]
  try {
    signal?.throwIfAborted()
    const response = await (options.fetch ?? fetch)(url, {
      headers: { ...options.headers, range: `bytes=0-${maxHeaderBytes - 1}`, 'accept-encoding': 'identity' },
      signal: AbortSignal.any(signals),
      redirect,
    })
    refuse(response, shown)
    return await headerOf(response, shown)
  } catch (error) {
    signal?.throwIfAborted()
    // The fetch that was given may say itself what is wrong.
    if (error instanceof GgufError || error instanceof ModelError) throw error
    throw new GgufError(
      'Unreadable',
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
  if (status === 416) throw new GgufError('Truncated', `${shown} is empty, not a GGUF file: fetch it again.`)
  if (status !== 200 && status !== 206) {
    const what = status === 401 || status === 403 ? 'the address and the token' : 'the address'
    const sentence = `${shown} answered ${statusText(status)} instead of a GGUF file: check ${what}.`
    throw new GgufError('Unreadable', sentence)
  }
  if (status === 206 && !/^bytes 0-/.test(headers.get('content-range') ?? '')) {
    throw new GgufError(
      'Unreadable',
      `${shown} answered with a part of the file that is not its beginning: its server is broken.`,
    )
  }
}

async function headerOf(response: Response, shown: string): Promise<GgufHeader> {
  const parser = parseHeader(shown, fileBytesOf(response))
  const body = new Body(response)
  // Pieces that have arrived already are read without a turn of the event loop between them.
  const turns = new Turns()
  let step = parser.next()
  while (step.done !== true) {
    const piece = await body.read(step.value)
    await turns.pass()
    step = parser.next(piece)
  }
  return { ...step.value, bytesRead: body.bytesRead }
}

/** The length of the whole file, where the server says it in a way to be relied on. */
function fileBytesOf({ status, headers }: Response): number | undefined {
  if (headers.get('content-encoding') !== null) return undefined
  const text = status === 206 ? /\/(\d+)$/.exec(headers.get('content-range') ?? '')?.[1] : headers.get('content-length')
  const bytes = text == null ? NaN : Number(text)
  return Number.isSafeInteger(bytes) ? bytes : undefined
}

/** An answer's body as a file that is read forwards. */
class Body {
  bytesRead = 0
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined

  constructor({ body }: Response) {
    this.#reader = body?.getReader()
  }

  /** What comes before the position is dropped. */
  async read({ position }: Wanted): Promise<Uint8Array> {
    for (;;) {
      const piece = (await this.#reader?.read())?.value
      if (piece === undefined) return new Uint8Array()
      const start = this.bytesRead
      this.bytesRead += piece.length
      if (this.bytesRead > position) return piece.subarray(Math.max(0, position - start))
    }
  }
}
