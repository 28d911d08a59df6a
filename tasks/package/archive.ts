import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { lutimes, readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { execa } from 'execa'

/** The time of every entry. Not zero: some unpackers take that for no time. 1 January 2020. */
const entryTime = new Date(1_577_836_800_000)

/** As GNU and BSD tar spell that the archive names nobody. */
const nobody =
  process.platform === 'darwin'
    ? ['--uid', '0', '--gid', '0', '--uname', '', '--gname', '']
    : ['--owner', '0', '--group', '0', '--numeric-owner']

/** Packs a folder without subfolders as `FOLDER.tar.gz` beside it: the same bytes for the same content, whoever packs it and when. */
export async function packFolder(folder: string): Promise<string> {
  const [parent, name] = [path.dirname(folder), path.basename(folder)]
  const files = (await readdir(folder)).sort()
  for (const file of files) await lutimes(path.join(folder, file), entryTime, entryTime)
  const entries = files.map((file) => path.join(name, file))
  const options = { cwd: parent, encoding: 'buffer', maxBuffer: 1_000_000_000 } as const
  // Without it macOS adds what it knows of a file beside its content.
  const env = { COPYFILE_DISABLE: '1' }
  const { stdout } = await execa('tar', ['--format', 'ustar', ...nobody, '-cf', '-', ...entries], { ...options, env })
  const archive = `${folder}.tar.gz`
  await writeFile(archive, await promisify(gzip)(stdout, { level: 9 }))
  return archive
}

/** `SHA256SUMS` of these files, as `sha256sum --check` and `shasum --check` read it. */
export async function checksums(files: readonly string[]): Promise<string> {
  const lines = [...files].sort().map(async (file) => `${await sha256(file)}  ${path.basename(file)}\n`)
  return (await Promise.all(lines)).join('')
}

/** In hex. */
export async function sha256(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}

/** The licence that lies in the distribution that this Node.js comes from. */
export const licenceOfNode = (): Promise<string> =>
  readFile(path.join(path.dirname(process.execPath), '../LICENSE'), 'utf8')
