import { constants } from 'node:fs'
import { open, rm, stat } from 'node:fs/promises'
import { errorCode } from '../../util/error-code.ts'

/**
 * What LLMKube's Go agent keeps beside a file that has the checksum of its Model: `<file>.sha256`, one line of digest, length and time of the last
 * change in seconds. It spares another reading of the whole file and nothing else: whatever it says, it makes no file a wrong one.
 */
export const stampOf = (file: string): string => `${file}.sha256`

/** Longer than any stamp. */
const maxStampBytes = 200

/** Some programs write the stamp just before they move the file to its place, so the file may be that much the newer of the two. */
const putTogetherMs = 1_000

/**
 * The digest in the stamp of a file; undefined where there is none to be trusted. It is trusted only if this user wrote it, and the file was
 * not written, linked or moved there afterwards.
 */
export async function digestInStamp(file: string): Promise<string | undefined> {
  const stamp = await readStamp(stampOf(file))
  const [, digest, size, seconds] = /^([0-9a-f]{64}) (\d{1,16}) (-?\d{1,12})\n?$/.exec(stamp?.text ?? '') ?? []
  if (stamp === undefined || digest === undefined) return undefined
  const found = await stat(file)
  const isOfThisFile = Number(size) === found.size && Number(seconds) === wholeSeconds(found.mtimeMs)
  // Unlike the time of its last change, a file's ctime is not for programs to set.
  return isOfThisFile && found.ctimeMs <= stamp.ctimeMs + putTogetherMs ? digest : undefined
}

/** After the whole file was read. What lies there and is no stamp stays, and no stamp is written. */
export async function writeStamp(file: string, sha256: string): Promise<void> {
  const { size, mtimeMs } = await stat(file)
  await removeStamp(file)
  const handle = await open(stampOf(file), 'wx', 0o600).catch(unless('EEXIST'))
  if (handle === undefined) return
  await using stamp = handle
  await stamp.writeFile(`${sha256} ${size} ${wholeSeconds(mtimeMs)}`)
}

/** A file of another kind under the name of a stamp is a person's, and stays. */
export async function removeStamp(file: string): Promise<void> {
  const text = (await readStamp(stampOf(file)))?.text
  // Also one that was not written to its end.
  if (text !== undefined && /^[0-9a-f]{0,64}(?: \d*)?(?: -?\d*)?\n?$/i.test(text))
    await rm(stampOf(file), { force: true })
}

/** Undefined where it is a link, too long, or somebody else may write it. */
async function readStamp(path: string): Promise<{ readonly text: string; readonly ctimeMs: number } | undefined> {
  // O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const opened = await open(path, flags).catch(unless('ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES', 'ENXIO', 'ENAMETOOLONG'))
  if (opened === undefined) return undefined
  await using handle = opened
  const found = await handle.stat()
  const isOwn = found.uid === process.getuid?.() && (found.mode & 0o022) === 0
  if (!found.isFile() || found.size > maxStampBytes || !isOwn) return undefined
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(maxStampBytes))
  return { text: buffer.toString('latin1', 0, bytesRead), ctimeMs: found.ctimeMs }
}

const wholeSeconds = (ms: number): number => Math.floor(ms / 1_000)

const unless =
  (...codes: readonly string[]) =>
  (error: unknown): undefined => {
    if (!codes.includes(errorCode(error) ?? '')) throw error
  }
