import { glob } from 'node:fs/promises'
import path from 'node:path'
import { build, type InlineConfig } from 'vite'
import { asciiSource } from '../ascii-source.ts'
import { buildDefines } from '../build-info.ts'
import { requiredBuiltins } from '../required-builtins.ts'
import { undiciParts } from '../undici-parts.ts'
import { embeddedWorker, embeddedWorkers } from './embedded-workers.ts'

const root = path.join(import.meta.dirname, '../..')

export interface CommandBundle {
  readonly folder: string
  /** One CommonJS file. */
  readonly main: string
  /** Name in the command → file. */
  readonly assets: Readonly<Record<string, string>>
}

/** The command, each of its workers and the window, as the self-contained command carries them, built into the folder. */
export async function bundleCommand(folder: string): Promise<CommandBundle> {
  const main = await bundle('src/cli/metal-agent.ts', folder, 'metal-agent.js')
  const assets: Record<string, string> = {}
  for await (const file of glob('src/agent-core/**/*-worker.ts', { cwd: root })) {
    const name = embeddedWorker(file)
    assets[name] = await bundle(file, folder, name)
  }
  const window = path.join(folder, 'renderer')
  const configFile = path.join(root, 'vite.renderer.config.ts')
  await build({ configFile, logLevel: 'warn', build: { outDir: window, emptyOutDir: true } })
  for await (const file of glob('**/*.*', { cwd: window })) {
    assets[`renderer/${file.replaceAll(path.sep, '/')}`] = path.join(window, file)
  }
  return { folder, main, assets }
}

async function bundle(entry: string, folder: string, name: string): Promise<string> {
  const config: InlineConfig = {
    root,
    configFile: false,
    logLevel: 'warn',
    plugins: [undiciParts(), requiredBuiltins(), embeddedWorkers(), asciiSource()],
    define: buildDefines(),
    ssr: { target: 'node', noExternal: true },
    build: {
      ssr: entry,
      target: 'node24',
      outDir: folder,
      emptyOutDir: false,
      minify: true,
      reportCompressedSize: false,
      rolldownOptions: {
        output: { format: 'cjs', codeSplitting: false, entryFileNames: name },
        treeshake: { moduleSideEffects: (id) => !id.includes('@kubernetes/client-node/dist/') },
      },
    },
  }
  await build(config)
  return path.join(folder, name)
}
