import path from 'node:path'
import { build, type Plugin } from 'vite'
import { asciiSource } from './ascii-source.ts'
import { buildDefines } from './build-info.ts'
import { undiciParts } from './undici-parts.ts'
import { emittedWorkers } from './worker-urls.ts'

const root = path.join(import.meta.dirname, '..')

/**
 * Bundles the file of each worker as one CommonJS text in `workers/`. Electron reads files from app.asar, but no module of a thread: so the
 * app reads the text and the thread runs it (startWorker).
 */
export const workerTexts = (): Plugin =>
  emittedWorkers('worker-texts', async (file, emitter) => {
    const fileName = `workers/${path.basename(file, '.ts')}.cjs`
    return emitter.emitFile({ type: 'asset', fileName, source: await textOf(file) })
  })

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
