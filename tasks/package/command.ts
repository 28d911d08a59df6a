import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { BundledPackage } from './bundled-packages.ts'
import { bundleCommand } from './command-bundle.ts'
import { writeSingleExecutable } from './single-executable.ts'

/** The self-contained command for the platform this runs on, of the Node.js this runs on, as the one file `output`; answers which packages are in it. */
export async function buildCommand(output: string): Promise<readonly BundledPackage[]> {
  const folder = await mkdtemp(path.join(tmpdir(), 'metalbar-command-'))
  try {
    const bundle = await bundleCommand(folder)
    const isMachO = process.platform === 'darwin'
    await writeSingleExecutable({ bundle, node: process.execPath, isMachO, output })
    return bundle.packages
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
