import { parentPort } from 'node:worker_threads'
import { GgufError, type GgufErrorReason, type GgufHeader } from './gguf.ts'
import { headerOfFile } from './header.ts'

export type HeaderAnswer =
  | { readonly header: GgufHeader }
  | { readonly failure: { readonly reason: GgufErrorReason; readonly message: string } }
  /** A failed system call. */
  | { readonly code: string; readonly message: string }

parentPort?.on('message', (path) => void answer(String(path)).then((header) => parentPort?.postMessage(header)))

async function answer(path: string): Promise<HeaderAnswer> {
  try {
    const header = await headerOfFile(path)
    if (!header) throw new Error('A header without a limit was too large.')
    return { header }
  } catch (error) {
    if (error instanceof GgufError) return { failure: { reason: error.reason, message: error.message } }
    if (error instanceof Error && 'code' in error && typeof error.code === 'string') {
      return { code: error.code, message: error.message }
    }
    throw error
  }
}
