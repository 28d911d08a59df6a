import path from 'node:path'
import { build, type Plugin } from 'vite'
import { asciiSource } from './ascii-source.ts'
import { buildDefines } from './build-info.ts'
import { emittedWorkers } from './worker-urls.ts'

const root = path.join(import.meta.dirname, '..')

/**
 * Bundles the file of each worker as one CommonJS text in `workers/`. Electron reads files from app.asar, but no module of a thread: so the
 * app reads the text and the thread runs it (startWorker).
 */
export const workerTexts = (): Plugin =>
  emittedWorkers('worker-texts', async (file, emitter) => {
    const name = path.basename(file, '.ts')
    const { source, licences } = await textOf(file)
    emitter.emitFile({ type: 'asset', fileName: `workers/${name}.licences.json`, source: licences })
    return emitter.emitFile({ type: 'asset', fileName: `workers/${name}.cjs`, source })
  })

interface Part {
  readonly fileName: string
  readonly code?: string
  readonly source?: string | Uint8Array
}

const licencesFile = 'licences.json'

async function textOf(entry: string): Promise<{ readonly source: string; readonly licences: string }> {
  const built = await build({
    root,
    configFile: false,
    logLevel: 'warn',
    plugins: [asciiSource()],
    define: buildDefines(),
    ssr: { target: 'node', noExternal: true },
    build: {
      ssr: entry,
      target: 'node24',
      write: false,
      license: { fileName: licencesFile },
      minify: true,
      reportCompressedSize: false,
      rolldownOptions: { output: { format: 'cjs', codeSplitting: false } },
    },
  })
  const [output] = Array.isArray(built) ? built : [built]
  const parts: readonly Part[] = 'output' in output ? output.output : []
  const licences = Buffer.from(parts.find(({ fileName }) => fileName === licencesFile)?.source ?? '[]').toString()
  const [only, ...more] = parts.filter(({ fileName }) => fileName !== licencesFile)
  if (more.length > 0)
    throw new Error(`${entry} is more than one file: ${more.map(({ fileName }) => fileName).join(', ')}.`)
  if (only?.code === undefined) throw new Error(`${entry} was not built.`)
  return { source: only.code, licences }
}
