import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { parentPort } from 'node:worker_threads'
import { GgufError, type GgufErrorReason } from './gguf-error.ts'
import { parseHeader } from './header.ts'
import type { GgufHeader } from './types.ts'

export type HeaderAnswer =
  | { readonly header: GgufHeader }
  | { readonly failure: { readonly reason: GgufErrorReason; readonly message: string } }
  /** A failed system call. */
  | { readonly code: string; readonly message: string }

/** Large enough that a large vocabulary costs few system calls, small enough that a small header costs little. */
const windowBytes = 256 * 1024

parentPort?.on('message', (path) => parentPort?.postMessage(answer(String(path))))

function answer(path: string): HeaderAnswer {
  try {
    return { header: readHeader(path) }
  } catch (error) {
    if (error instanceof GgufError) return { failure: { reason: error.reason, message: error.message } }
    if (error instanceof Error && 'code' in error && typeof error.code === 'string') {
      return { code: error.code, message: error.message }
    }
    throw error
  }
}

function readHeader(path: string): GgufHeader {
  const file = openSync(path, 'r')
  try {
    const fileBytes = fstatSync(file).size
    const parser = parseHeader(path, fileBytes)
    let bytesRead = 0
    let step = parser.next()
    while (step.done !== true) {
      const { position, bytes } = step.value
      const window = Buffer.allocUnsafe(Math.max(bytes, Math.min(windowBytes, fileBytes - position)))
      const length = readSync(file, window, 0, window.length, position)
      bytesRead += length
      step = parser.next(window.subarray(0, length))
    }
    return { ...step.value, bytesRead }
  } finally {
    closeSync(file)
  }
}
