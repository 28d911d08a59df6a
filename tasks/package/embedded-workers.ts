import path from 'node:path'
import type { Plugin } from 'vite'
import { embeddedScheme } from '../../src/agent-core/support/embedded.ts'
import { workerUrl } from '../worker-files.ts'

/** Where the self-contained command carries the bundle of a worker's file. */
export const embeddedWorker = (file: string): string => `workers/${path.basename(file, '.ts')}.js`

/** Puts that address in the place of every `new URL('./name-worker.ts', import.meta.url)`. */
export function embeddedWorkers(): Plugin {
  return {
    name: 'embedded-workers',
    enforce: 'pre',
    transform: {
      filter: { code: /-worker\.ts/ },
      handler(code) {
        const replaced = code.replaceAll(
          workerUrl,
          (_, __, file: string) => `new URL('${embeddedScheme}${embeddedWorker(file)}')`,
        )
        return replaced === code ? null : { code: replaced, map: null }
      },
    },
  }
}
