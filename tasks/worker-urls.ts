import path from 'node:path'
import type { Plugin } from 'vite'

const workerUrl = /new URL\((['"])(\.[^'"]*-worker\.ts)\1,\s*import\.meta\.url\)/g

interface Emitter {
  emitFile(
    file:
      | { readonly type: 'asset'; readonly fileName: string; readonly source: string }
      | { readonly type: 'chunk'; readonly id: string; readonly name: string },
  ): string
}

/** Puts the address of its file in the place of every `new URL('./name-worker.ts', import.meta.url)`. */
export function workerUrls(
  name: string,
  addressOf: (file: string, emitter: Emitter) => string | Promise<string>,
): Plugin {
  return {
    name,
    enforce: 'pre',
    transform: {
      filter: { code: /-worker\.ts/ },
      async handler(code, id) {
        let replaced = code
        for (const [expression, , file = ''] of code.matchAll(workerUrl)) {
          const address = await addressOf(path.resolve(path.dirname(id), file), this)
          replaced = replaced.replaceAll(expression, () => address)
        }
        return replaced === code ? null : { code: replaced, map: null }
      },
    },
  }
}

/** The same for files that are emitted beside the code: without the last hook an address would count from the root of a web site. */
export const emittedWorkers = (
  name: string,
  emit: (file: string, emitter: Emitter) => string | Promise<string>,
): Plugin => ({
  ...workerUrls(name, async (file, emitter) => `new URL(import.meta.ROLLUP_FILE_URL_${await emit(file, emitter)})`),
  resolveFileUrl: ({ relativePath }) => `new URL(${JSON.stringify(relativePath)}, import.meta.url).href`,
})
