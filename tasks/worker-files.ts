import path from 'node:path'
import type { Plugin } from 'vite'

export const workerUrl = /new URL\((['"])(\.[^'"]*-worker\.ts)\1,\s*import\.meta\.url\)/g

/** Bundles the file of every `new URL('./name-worker.ts', import.meta.url)` as an entry of its own, and puts its address there. */
export function workerFiles(): Plugin {
  return {
    name: 'worker-files',
    enforce: 'pre',
    transform: {
      filter: { code: /-worker\.ts/ },
      handler(code, id) {
        const replaced = code.replaceAll(workerUrl, (_, __, file: string) => {
          const reference = this.emitFile({
            type: 'chunk',
            id: path.resolve(path.dirname(id), file),
            name: path.basename(file, '.ts'),
          })
          return `new URL(import.meta.ROLLUP_FILE_URL_${reference})`
        })
        return replaced === code ? null : { code: replaced, map: null }
      },
    },
    // Without it the address would count from the root of a web site.
    resolveFileUrl: ({ relativePath }) => `new URL(${JSON.stringify(relativePath)}, import.meta.url).href`,
  }
}
