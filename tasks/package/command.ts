import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { bundleCommand } from './command-bundle.ts'
import { writeSingleExecutable } from './single-executable.ts'

/** The self-contained command for the platform this runs on, of the Node.js this runs on, as the one file `output`. */
export async function buildCommand(output: string): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), 'metalbar-command-'))
  try {
    const bundle = await bundleCommand(folder)
    const isMachO = process.platform === 'darwin'
    await writeSingleExecutable({ bundle, node: process.execPath, isMachO, output })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
