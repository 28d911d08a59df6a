import { glob, rename } from 'node:fs/promises'
import path from 'node:path'
import { build, type InlineConfig } from 'vite'
import { asciiSource } from '../ascii-source.ts'
import { buildDefines } from '../build-info.ts'
import { docsDefine } from '../docs-texts.ts'
import { requiredBuiltins } from '../required-builtins.ts'
import { bundledPackages, type BundledPackage } from './bundled-packages.ts'
import { embeddedWorker, embeddedWorkers } from './embedded-workers.ts'

const root = path.join(import.meta.dirname, '../..')

export interface CommandBundle {
  readonly folder: string
  /** One CommonJS file. */
  readonly main: string
  /** Name in the command → file. */
  readonly assets: Readonly<Record<string, string>>
  /** Every package that a module in it comes from. */
  readonly packages: readonly BundledPackage[]
}

/** The command, each of its workers and the window, as the self-contained command carries them, built into the folder. */
export async function bundleCommand(folder: string): Promise<CommandBundle> {
  const licences: string[] = []
  const bundleIn = (entry: string, name: string): Promise<string> => {
    licences.push(path.join(folder, licencesOf(name)))
    return bundle(entry, folder, name)
  }
  const main = await bundleIn('src/cli/metal-agent.ts', 'metal-agent.js')
  const assets: Record<string, string> = {}
  for await (const file of glob('src/agent-core/**/*-worker.ts', { cwd: root })) {
    const name = embeddedWorker(file)
    assets[name] = await bundleIn(file, name)
  }
  const window = path.join(folder, 'renderer')
  const configFile = path.join(root, 'vite.renderer.config.ts')
  const license = { fileName: licencesOf('renderer') }
  // At `warn` Vite complains of its own plugin for modules of CSS; `make build` shows whatever else there is.
  await build({ configFile, logLevel: 'error', build: { outDir: window, emptyOutDir: true, license } })
  const licencesOfWindow = path.join(folder, license.fileName)
  await rename(path.join(window, license.fileName), licencesOfWindow)
  licences.push(licencesOfWindow)
  for await (const file of glob('**/*.*', { cwd: window })) {
    assets[`renderer/${file.replaceAll(path.sep, '/')}`] = path.join(window, file)
  }
  return { folder, main, assets, packages: await bundledPackages(licences) }
}

const licencesOf = (name: string): string => `${name}.licences.json`

async function bundle(entry: string, folder: string, name: string): Promise<string> {
  const config: InlineConfig = {
    root,
    configFile: false,
    logLevel: 'warn',
    plugins: [requiredBuiltins(), embeddedWorkers(), asciiSource()],
    define: { ...buildDefines(), ...docsDefine() },
    ssr: { target: 'node', noExternal: true },
    build: {
      ssr: entry,
      target: 'node24',
      outDir: folder,
      emptyOutDir: false,
      license: { fileName: licencesOf(name) },
      minify: true,
      reportCompressedSize: false,
      rolldownOptions: {
        output: { format: 'cjs', codeSplitting: false, entryFileNames: name },
      },
    },
  }
  await build(config)
  return path.join(folder, name)
}
