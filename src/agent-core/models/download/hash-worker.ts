import { createHash } from 'node:crypto'
import { readSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import type { HashAnswer, HashRequest } from './hash.ts'

const { fd } = workerData as { fd: number } // PrefixHash passes nothing else
const port = parentPort
if (port === null) throw new Error('hash-worker.ts runs as a worker thread only.')

const hash = createHash('sha256')
const buffer = Buffer.allocUnsafeSlow(1024 * 1024)
let position = 0
let target = 0
/** Where the hash stops to tell the digest; ascending. */
const points: { readonly id: number; readonly at: number }[] = []
let scheduled = false

port.on('message', (request: HashRequest) => {
  if (request.kind === 'advance') target = Math.max(target, request.to)
  else if (request.at === undefined) tell(request.id)
  else {
    points.push({ id: request.id, at: request.at })
    points.sort((a, b) => a.at - b.at)
  }
  schedule()
})

function schedule(): void {
  if (scheduled) return
  scheduled = true
  setImmediate(step)
}

/** A piece at a time, so that questions in between are answered. */
function step(): void {
  scheduled = false
  const end = Math.min(target, points[0]?.at ?? target, position + buffer.length)
  if (position < end) {
    const bytesRead = readSync(fd, buffer, 0, end - position, position)
    if (bytesRead === 0) throw new Error(`the file ends after ${position} bytes`)
    hash.update(buffer.subarray(0, bytesRead))
    position += bytesRead
    answer({ kind: 'position', bytes: position })
  }
  while (points[0] !== undefined && points[0].at <= position) tell(points.shift()?.id ?? 0)
  if (position < Math.min(target, points[0]?.at ?? target)) schedule()
}

function tell(id: number): void {
  answer({ kind: 'digest', id, bytes: position, sha256: hash.copy().digest('hex') })
}

function answer(message: HashAnswer): void {
  port?.postMessage(message)
}
