import { createHash, timingSafeEqual } from 'node:crypto'
import { constants, open, type FileHandle } from 'node:fs/promises'
import { messageOf } from '../util/message-of.ts'

/** As read at this moment; `why` completes "The token file … cannot be used: …". */
export type MetricsToken = { readonly ok: true; readonly digest: Buffer } | { readonly ok: false; readonly why: string }

/** The longest token, and some line breaks after it. */
const maxFileBytes = 1_100

/** Read at each request, which is a few system calls, so that a token that is replaced counts at once. Never rejects. */
export async function readMetricsToken(file: string): Promise<MetricsToken> {
  try {
    // Without waiting: to open a pipe that nobody writes to would never end.
    await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK)
    return await tokenIn(handle)
  } catch (error) {
    return { ok: false, why: `${messageOf(error)}; create it with a token in it, or lend it to this user` }
  }
}

/** Takes equally long whatever the two have in common. */
export function isToken(given: string, { digest }: { readonly digest: Buffer }): boolean {
  return timingSafeEqual(digestOf(given), digest)
}

async function tokenIn(handle: FileHandle): Promise<MetricsToken> {
  const stat = await handle.stat()
  if (!stat.isFile()) return { ok: false, why: 'it is no file; name a file with the token in it' }
  if (stat.uid !== process.getuid?.()) return { ok: false, why: 'it belongs to another user; make one that is yours' }
  if ((stat.mode & 0o077) !== 0) return { ok: false, why: 'other users may open it; run chmod 600 on it' }
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(maxFileBytes + 1), 0, maxFileBytes + 1, 0)
  const token = buffer.toString('latin1', 0, bytesRead).trimEnd()
  if (bytesRead > maxFileBytes || !/^[\x21-\x7e]{16,1024}$/.test(token)) {
    return {
      ok: false,
      why: 'a token has 16 to 1024 visible characters; write such a one, as from openssl rand -hex 32',
    }
  }
  return { ok: true, digest: digestOf(token) }
}

const digestOf = (secret: string): Buffer => createHash('sha256').update(secret, 'latin1').digest()
