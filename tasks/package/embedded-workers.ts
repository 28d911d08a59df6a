import path from 'node:path'
import type { Plugin } from 'vite'
import { embeddedScheme } from '../../src/agent-core/util/embedded.ts'
import { workerUrls } from '../worker-urls.ts'

/** Where the self-contained command carries the bundle of a worker's file. */
export const embeddedWorker = (file: string): string => `workers/${path.basename(file, '.ts')}.js`

export const embeddedWorkers = (): Plugin =>
  workerUrls('embedded-workers', (file) => `new URL('${embeddedScheme}${embeddedWorker(file)}')`)
