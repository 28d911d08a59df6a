import type { Dirent } from 'node:fs'
import { constants, lstat, open, opendir, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

export const hasCode = (error: unknown, code: string) =>
  error instanceof Error && 'code' in error && error.code === code

/** Undefined where there is no such file; empty where it has more bytes than it may. */
export async function readIfThere(file: string, maxBytes = Infinity): Promise<string | undefined> {
  try {
    if (maxBytes < Infinity && (await stat(file)).size > maxBytes) return ''
    return await readFile(file, 'utf8')
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
}

/** Reads `~` at the beginning of a path as a shell does. */
export const expandHome = (path: string, home: string): string =>
  /^~(?=\/|$)/.test(path) ? join(home, path.slice(1)) : path

const pieceBytes = 64 * 1024

/**
 * The bytes of a file that somebody else names. Throws where it is something else than a regular file (a pipe may never end, a device never
 * does), or has more bytes than it may.
 */
export async function readBounded(file: string, maxBytes: number): Promise<Buffer> {
  // O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
  await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK)
  if (!(await handle.stat()).isFile()) throw new Error(`${file} is not a regular file`)
  const pieces: Buffer[] = []
  let length = 0
  for (;;) {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(pieceBytes))
    if (bytesRead === 0) return Buffer.concat(pieces)
    pieces.push(buffer.subarray(0, bytesRead))
    length += bytesRead
    if (length > maxBytes) throw new Error(`${file} has more than ${maxBytes / 1024} KiB`)
  }
}

/** Text that changes when the file is written to or another takes its place, and not when it gets a further name, which changes its ctime. */
export async function stateOfFile(path: string): Promise<string> {
  const { size, mtimeMs, ino } = await stat(path)
  return [size, mtimeMs, ino].join(' ')
}

/** The entries of a folder that others fill, in no order; undefined where there are more than `most`, which are not read to the end. */
export async function entriesUpTo(folder: string, most: number): Promise<Dirent[] | undefined> {
  const entries: Dirent[] = []
  for await (const entry of await opendir(folder, { bufferSize: 256 })) {
    if (entries.length === most) return undefined
    entries.push(entry)
  }
  return entries
}

/** Undefined where the text is not JSON; a schema decides about the rest. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/** Makes renames in a folder survive a power cut. */
export async function syncFolder(folder: string): Promise<void> {
  await using handle = await open(folder)
  await handle.sync()
}

/** What write-file-atomic calls a JSON file until it is complete. */
const unfinished = /\.jsonl?\.\d+$/

/** Longer than any write of a small file: what is older was left by a process that was killed while it wrote. */
const unfinishedForMs = 60_000

/**
 * The names of the folder's entries but for JSON files that are being written; those that a killed process left unfinished are removed, where
 * the folder may be written. `names`: the entries, where they are known.
 */
export async function withoutUnfinished(folder: string, names?: readonly string[]): Promise<string[]> {
  const all = names ?? (await readdir(folder))
  for (const name of all.filter((one) => unfinished.test(one))) await removeUnfinished(join(folder, name))
  return all.filter((name) => !unfinished.test(name))
}

async function removeUnfinished(path: string): Promise<void> {
  try {
    const found = await lstat(path)
    if (found.isFile() && Math.abs(Date.now() - found.mtimeMs) > unfinishedForMs) await rm(path, { force: true })
  } catch (error) {
    // It is complete by now, or nothing can be removed there, which takes nothing from who reads.
    if (!['ENOENT', 'EACCES', 'EPERM', 'EROFS'].some((code) => hasCode(error, code))) throw error
  }
}
