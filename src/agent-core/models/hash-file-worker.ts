import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { z } from 'zod'
import { messageOf } from '../util/message-of.ts'

/** Answers the SHA-256 of a file, or what the disk said. */
async function answer(): Promise<unknown> {
  const file = z.string().parse(workerData)
  const hash = createHash('sha256')
  try {
    await pipeline(createReadStream(file, { highWaterMark: 1024 * 1024 }), hash)
    return { sha256: hash.digest('hex') }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    return { failed: messageOf(error), code }
  }
}

void answer().then((answered) => parentPort?.postMessage(answered))
