import { lstat, readdir, rm, rmdir } from 'node:fs/promises'
import path from 'node:path'
import { hasCode } from '../../agent-core/util/files.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { shellCommand } from '../../contract/shell.ts'
import { UninstallError } from './trace-part.ts'

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

/** Of a file, or of all files of a folder; links count as nothing and are not followed. */
export async function bytesOf(file: string): Promise<number> {
  const found = await lookAt(file)
  if (found?.isDirectory() !== true) return found?.isFile() === true ? found.size : 0
  const below = (await namesIn(file)).map((name) => bytesOf(path.join(file, name)))
  return (await Promise.all(below)).reduce((sum, bytes) => sum + bytes, 0)
}

/** Files, links and folders with all that is in them; a link is removed and never followed. Throws UninstallError, after all of them were tried. */
export async function removeAll(files: readonly string[]): Promise<void> {
  const failures: unknown[] = []
  for (const file of files) {
    await rm(file, { recursive: true, force: true }).catch((error: unknown) => failures.push(error))
  }
  if (failures.length === 0) return
  const others = failures.length === 1 ? '' : `, and ${failures.length - 1} more`
  throw new UninstallError(`It could not be removed (${messageOf(failures[0])}${others})`, { cause: failures[0] })
}

/** Only where nothing is in it. */
export async function removeIfEmpty(folder: string): Promise<void> {
  await rmdir(folder).catch((error: unknown) => {
    const isUsed = ['ENOTEMPTY', 'EEXIST', 'EBUSY', 'EACCES', 'EPERM', 'EROFS'].some((code) => hasCode(error, code))
    if (!isUsed && !isMissing(error)) throw error
  })
}

export const removeByHand = (files: readonly string[], sudo = false): string[] =>
  files.map((file) => shellCommand([...(sudo ? ['sudo'] : []), 'rm', '-r', file]))
