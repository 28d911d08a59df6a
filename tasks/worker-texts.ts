import path from 'node:path'
import { build, type Plugin } from 'vite'
import { asciiSource } from './ascii-source.ts'
import { buildDefines } from './build-info.ts'
import { undiciParts } from './undici-parts.ts'
import { workerUrl } from './worker-files.ts'

const root = path.join(import.meta.dirname, '..')

/**
 * Bundles the file of every `new URL('./name-worker.ts', import.meta.url)` as one CommonJS text in `workers/`, and puts its address there.
 * Electron reads files from app.asar, but no module of a thread: so the app reads the text and the thread runs it (startWorker).
 */
export function workerTexts(): Plugin {
  return {
    name: 'worker-texts',
    enforce: 'pre',
    transform: {
      filter: { code: /-worker\.ts/ },
      async handler(code, id) {
        let replaced = code
        for (const [expression, , file = ''] of code.matchAll(workerUrl)) {
          const name = path.basename(file, '.ts')
          const source = await textOf(path.resolve(path.dirname(id), file))
          const reference = this.emitFile({ type: 'asset', fileName: `workers/${name}.cjs`, source })
          replaced = replaced.replaceAll(expression, `new URL(import.meta.ROLLUP_FILE_URL_${reference})`)
        }
        return replaced === code ? null : { code: replaced, map: null }
      },
    },
    // Without it the address would count from the root of a web site.
    resolveFileUrl: ({ relativePath }) => `new URL(${JSON.stringify(relativePath)}, import.meta.url).href`,
  }
}

interface Part {
  readonly fileName: string
  readonly code?: string
}

async function textOf(entry: string): Promise<string> {
  const built = await build({
    root,
    configFile: false,
    logLevel: 'warn',
    plugins: [undiciParts(), asciiSource()],
    define: buildDefines(),
    ssr: { target: 'node', noExternal: true },
    build: {
      ssr: entry,
      target: 'node24',
      write: false,
      minify: true,
      reportCompressedSize: false,
      rolldownOptions: { output: { format: 'cjs', codeSplitting: false } },
    },
  })
  const [output] = Array.isArray(built) ? built : [built]
  const parts: readonly Part[] = 'output' in output ? output.output : []
  const [only, ...more] = parts
  if (more.length > 0)
    throw new Error(`${entry} is more than one file: ${more.map(({ fileName }) => fileName).join(', ')}.`)
  if (only?.code === undefined) throw new Error(`${entry} was not built.`)
  return only.code
}
