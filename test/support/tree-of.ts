import { createHash } from 'node:crypto'
import { readdir, readFile, readlink } from 'node:fs/promises'
import path from 'node:path'
import { hasCode } from '../../src/agent-core/util/files.ts'

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

/** Undefined where the file is gone by now: an agent that replaces a file writes a temporary one, and renames that. */
const contentOf = (file: string): Promise<Buffer | undefined> =>
  readFile(file).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  })
