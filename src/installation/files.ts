import { lstat, readdir, rm, rmdir } from 'node:fs/promises'
import path from 'node:path'
import { hasCode } from '../agent-core/util/files.ts'

const isMissing = (error: unknown): boolean => hasCode(error, 'ENOENT') || hasCode(error, 'ENOTDIR')

/** Names in a folder; none where there is no such folder. */
export async function namesIn(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).sort()
  } catch (error) {
    if (isMissing(error)) return []
    throw error
  }
}

/** Undefined where there is nothing; a link is not followed. */
export async function lookAt(file: string) {
  try {
    return await lstat(file)
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

/** The size of a file, or of all files of a folder; links count as nothing and are not followed. */
export async function bytesOf(file: string): Promise<number> {
  const found = await lookAt(file)
  if (found?.isDirectory() !== true) return found?.isFile() === true ? found.size : 0
  const below = (await namesIn(file)).map((name) => bytesOf(path.join(file, name)))
  return (await Promise.all(below)).reduce((sum, bytes) => sum + bytes, 0)
}

/** Removes a folder without entries; false where it stays. */
export async function removeIfEmpty(folder: string): Promise<boolean> {
  try {
    await rmdir(folder)
    return true
  } catch (error) {
    const isUsed = ['ENOTEMPTY', 'EEXIST', 'EBUSY', 'EACCES', 'EPERM', 'EROFS'].some((code) => hasCode(error, code))
    if (!isUsed && !isMissing(error)) throw error
    return false
  }
}

/** Removes a file or a whole folder, and the folders between it and `root` that are empty then. A link is removed, not followed. */
export async function removeBelow(root: string, file: string): Promise<void> {
  await rm(file, { recursive: true, force: true })
  let folder = path.dirname(file)
  while (folder.startsWith(root + path.sep) && (await removeIfEmpty(folder))) folder = path.dirname(folder)
}
