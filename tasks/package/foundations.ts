import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { sha256 } from './archive.ts'
import type { Foundation } from './sbom.ts'

/** The Node.js that a command was made of. */
export async function nodeFoundation(node: string, version: string): Promise<Foundation> {
  const bare = version.replace(/^v/, '')
  return {
    name: 'Node.js',
    version: bare,
    purl: `pkg:generic/node@${bare}`,
    licence: 'MIT',
    sha256: await sha256(node),
  }
}

const electronPackage = z.object({ version: z.string() })
const hashes = z.record(z.string(), z.string())

/** Electron of both kinds of Mac, with the hash of the archive that its package downloads and checks. */
export async function electronFoundations(root: string): Promise<Foundation[]> {
  const json = async (name: string): Promise<unknown> =>
    JSON.parse(await readFile(path.join(root, 'node_modules/electron', name), 'utf8'))
  const { version } = electronPackage.parse(await json('package.json'))
  const known = hashes.parse(await json('checksums.json'))
  return ['arm64', 'x64'].map((arch) => {
    const file = `electron-v${version}-darwin-${arch}.zip`
    const hash = known[file]
    if (hash === undefined) throw new Error(`node_modules/electron/checksums.json has no ${file}.`)
    const purl = `pkg:generic/electron@${version}?arch=${arch}&os=darwin`
    return { name: `Electron for darwin ${arch}`, version, purl, licence: 'MIT', sha256: hash }
  })
}
