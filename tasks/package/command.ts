import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { BundledPackage } from './bundled-packages.ts'
import { bundleCommand, type CommandBundle } from './command-bundle.ts'
import { inject, writeBlob } from './single-executable.ts'

/** The self-contained command for the platform this runs on, of the Node.js this runs on, as the one file `output`; answers which packages are in it. */
export function buildCommand(output: string): Promise<readonly BundledPackage[]> {
  return withBundle(async (bundle) => {
    const blob = await writeBlob(bundle, process.execPath)
    await inject({ blob, node: process.execPath, isMachO: process.platform === 'darwin', output })
    return bundle.packages
  })
}

/** On a Mac, the command for the other kind of Mac too: `node` is Node.js for it, of the version that this runs on. */
export function buildCommandFor(node: string, output: string): Promise<void> {
  return withBundle(async (bundle) =>
    inject({ blob: await writeBlob(bundle, process.execPath), node, isMachO: true, output }),
  )
}

/** What every one of them is made of. */
export const packagesOfCommand = (): Promise<readonly BundledPackage[]> =>
  withBundle((bundle) => Promise.resolve(bundle.packages))

async function withBundle<T>(use: (bundle: CommandBundle) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(path.join(tmpdir(), 'metalbar-command-'))
  try {
    return await use(await bundleCommand(folder))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
