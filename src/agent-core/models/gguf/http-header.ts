import { meaningOf } from '../download/answer.ts'
import type { ByteRange } from '../download/partial-file.ts'
import { type Asked, Body, discard, downloadStallMs, PaceGuard, send } from '../download/request.ts'
import type { Transport } from '../download/transport.ts'
import { ModelError } from '../errors.ts'
import { shownSource } from '../source.ts'
import type { GgufHeader } from './gguf.ts'
import { maxHeaderBytes, readHeader } from './header.ts'

/** The requests with their answers. */
const defaultLimitMs = 120_000

interface How {
  readonly transport: Transport
  readonly signal: AbortSignal
  /** For tests. */
  readonly limitMs?: number
}

/**
 * The header of a file on a server, before it is fetched: of the first 64 MiB as much as the header takes. Throws GgufError, ModelError or
 * the signal's reason.
 */
export async function readGgufHeaderOverHttp(
  file: Pick<Asked, 'url' | 'credentials'>,
  { transport, signal, limitMs = defaultLimitMs }: How,
): Promise<GgufHeader> {
  const timeout = AbortSignal.timeout(limitMs)
  const how = { transport, signal: AbortSignal.any([signal, timeout]) }
  try {
    return await headerIn([0, maxHeaderBytes], file, how)
  } catch (error) {
    if (signal.aborted || !timeout.aborted) throw error
    const sentence = `${shownSource(file.url)} did not send its GGUF header within ${limitMs / 1_000} s: the agent tries again.`
    throw ModelError.passing('Stalled', sentence, { cause: error })
  }
}

async function headerIn(
  range: ByteRange | undefined,
  { url, credentials }: Pick<Asked, 'url' | 'credentials'>,
  how: How,
): Promise<GgufHeader> {
  const { transport, signal } = how
  const shown = shownSource(url)
  using guard = new PaceGuard(downloadStallMs, shown)
  const answer = await send({ url, credentials, range }, { transport, signal, guard })
  try {
    const question = { range, known: {}, begun: false, isVouchedFor: false, shown, now: Date.now() }
    const meaning = meaningOf(answer, question)
    // From a server that refuses ranges.
    if (!('remote' in meaning)) return await headerIn(undefined, { url, credentials }, how)
    const body = new Body(answer, guard, signal, shown)
    const { sizeBytes: fileBytes } = meaning.remote
    let have = Buffer.alloc(0)
    const read = async (wanted: number): Promise<Buffer> => {
      const pieces: Uint8Array[] = [have]
      for (let length = have.length; length < wanted;) {
        const piece = await body.next(length, fileBytes)
        if (piece === undefined) break
        pieces.push(piece)
        length += piece.length
      }
      have = Buffer.concat(pieces)
      return have
    }
    return await readHeader({ name: shown, fileBytes, read })
  } finally {
    discard(answer.body)
  }
}
