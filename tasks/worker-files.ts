import path from 'node:path'
import type { Plugin } from 'vite'
import { emittedWorkers } from './worker-urls.ts'

/** Bundles the file of each worker as an entry of its own. */
export const workerFiles = (): Plugin =>
  emittedWorkers('worker-files', (id, emitter) =>
    emitter.emitFile({ type: 'chunk', id, name: path.basename(id, '.ts') }),
  )
