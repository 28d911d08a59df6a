import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { nodeOf } from '../setup/nodes-for-macs.ts'
import type { BundledPackage } from './bundled-packages.ts'
import { bundleCommand, type CommandBundle } from './command-bundle.ts'
import { commandTroubles } from './mach-o/command-troubles.ts'
import { inject, sentinel, writeBlob } from './single-executable.ts'

/** Processors of Macs. */
export const macArchs = ['arm64', 'x64'] as const

/** The self-contained command for the platform this runs on, of the Node.js this runs on, as the one file `output`; answers which packages are in it. */
export function buildCommand(output: string): Promise<readonly BundledPackage[]> {
  return withBundle(async (bundle) => {
    const blob = await writeBlob(bundle, process.execPath)
    await inject({ blob, node: process.execPath, isMachO: process.platform === 'darwin', output })
    return bundle.packages
  })
}

/**
 * On a Mac, the command for the other kind of Mac too: `node` is Node.js for it, of the version that this runs on. Throws where the file is not
 * what a Mac would start.
 */
export function buildCommandFor(arch: (typeof macArchs)[number], node: string, output: string): Promise<void> {
  return withBundle(async (bundle) => {
    const blob = await writeBlob(bundle, process.execPath)
    await inject({ blob, node, isMachO: true, output })
    await checkCommand(output, arch, blob)
  })
}

/**
 * The commands of both kinds of Mac, by Node.js of the part `nodes-for-macs`, as `metal-agent-darwin-ARCH/metal-agent` in the folder. Answers
 * the files. Throws where one is not what a Mac would start once it is signed.
 */
export function buildMacCommandsHere(folder: string): Promise<readonly string[]> {
  return withBundle(async (bundle) => {
    const blob = await writeBlob(bundle, nodeOf('linux-x64'))
    const files: string[] = []
    for (const arch of macArchs) {
      const output = path.join(folder, `metal-agent-darwin-${arch}`, 'metal-agent')
      await mkdir(path.dirname(output), { recursive: true })
      await inject({ blob, node: nodeOf(`darwin-${arch}`), isMachO: true, output })
      await checkCommand(output, arch, blob)
      files.push(output)
    }
    return files
  })
}

/** What every one of them is made of. */
export const packagesOfCommand = (): Promise<readonly BundledPackage[]> =>
  withBundle((bundle) => Promise.resolve(bundle.packages))

async function checkCommand(file: string, arch: (typeof macArchs)[number], blob: string): Promise<void> {
  const expected = { arch, blob: await readFile(blob), sentinel, isSigned: false }
  const troubles = commandTroubles(await readFile(file), expected)
  if (troubles.length > 0) throw new Error(`${file} is no command for a Mac:\n${troubles.join('\n')}`)
}

async function withBundle<T>(use: (bundle: CommandBundle) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(path.join(tmpdir(), 'metalbar-command-'))
  try {
    return await use(await bundleCommand(folder))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
