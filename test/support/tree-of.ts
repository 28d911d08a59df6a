import { createHash } from 'node:crypto'
import { readdir, readFile, readlink } from 'node:fs/promises'
import path from 'node:path'
import { errorCode } from '../../src/agent-core/util/error-code.ts'

/** Everything below a folder: folders by their names, files with a digest of their content, links with where they lead, which is not followed. */
export async function treeOf(folder: string, below = ''): Promise<string[]> {
  const entries = await readdir(path.join(folder, below), { withFileTypes: true })
  const lines = entries.map(async (entry): Promise<string[]> => {
    const name = path.join(below, entry.name)
    const file = path.join(folder, name)
    if (entry.isSymbolicLink()) return [`${name} -> ${await readlink(file)}`]
    if (entry.isDirectory()) return [`${name}/`, ...(await treeOf(folder, name))]
    if (!entry.isFile()) return [name]
    const content = await contentOf(file)
    return content === undefined ? [] : [`${name} ${createHash('sha256').update(content).digest('hex').slice(0, 16)}`]
  })
  return (await Promise.all(lines)).flat().sort()
}

/** Undefined where it is gone by now: a file that is written anew has another name until it is whole. */
const contentOf = (file: string): Promise<Buffer | undefined> =>
  readFile(file).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  })
