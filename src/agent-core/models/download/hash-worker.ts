import { createHash } from 'node:crypto'
import { readSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'

/** Posts numbers of hashed bytes, then the digest as text. */
const { fd } = workerData as { fd: number } // hashOpenFile passes nothing else
const tellMs = 250

const hash = createHash('sha256')
const buffer = Buffer.allocUnsafeSlow(1024 * 1024)
let position = 0
let toldAt = performance.now()
for (;;) {
  const bytesRead = readSync(fd, buffer, 0, buffer.length, position)
  if (bytesRead === 0) break
  hash.update(buffer.subarray(0, bytesRead))
  position += bytesRead
  if (performance.now() - toldAt < tellMs) continue
  toldAt = performance.now()
  parentPort?.postMessage(position)
}
parentPort?.postMessage(hash.digest('hex'))
