import { createHash } from 'node:crypto'
import { readdir, readFile, readlink } from 'node:fs/promises'
import path from 'node:path'

/** Everything below a folder: folders by their names, files with a digest of their content, links with where they lead, which is not followed. */
export async function treeOf(folder: string, below = ''): Promise<string[]> {
  const entries = await readdir(path.join(folder, below), { withFileTypes: true })
  const lines = entries.map(async (entry): Promise<string[]> => {
    const name = path.join(below, entry.name)
    const file = path.join(folder, name)
    if (entry.isSymbolicLink()) return [`${name} -> ${await readlink(file)}`]
    if (entry.isDirectory()) return [`${name}/`, ...(await treeOf(folder, name))]
    if (!entry.isFile()) return [name]
    return [
      `${name} ${createHash('sha256')
        .update(await readFile(file))
        .digest('hex')
        .slice(0, 16)}`,
    ]
  })
  return (await Promise.all(lines)).flat().sort()
}
