import { open, rename, rm, writeFile, type FileHandle } from 'node:fs/promises'
import { editableRows } from '../../contract/settings-table.ts'
import { endOf, findRun, olderPieces, pieceName, type Piece } from './output-pieces.ts'

export interface OutputLimits {
  /** Of each file; that which a server writes to may grow beyond it between two looks. */
  readonly bytes: number
  /** How many files of older output are kept, those of the previous run included. */
  readonly count: number
}

export const defaultOutputLimits: OutputLimits = {
  bytes: editableRows.serverLogBytes.default,
  count: editableRows.serverLogFiles.default,
}

/** Cut from this size on, a file seldom grows beyond its limit before it is looked at again. */
export const cutSize = ({ bytes }: OutputLimits): number => bytes * 0.75

/** What was older could not be copied, and is gone for `cause`. */
export interface LostOutput {
  readonly bytes: number
  readonly cause: unknown
}

const minLookMs = 500
/** On its beats all files are looked at at once, which costs less than one by one. */
export const maxLookMs = 5_000

/** How long a file may be left alone at the rate at which it grew last. */
export function nextLookMs({ room, bytesPerMs }: { room: number; bytesPerMs: number }): number {
  const fullInMs = bytesPerMs > 0 ? room / bytesPerMs : maxLookMs
  return Math.min(maxLookMs, Math.max(minLookMs, fullInMs))
}

const copyBytes = 256 * 1024
/** A server that writes faster than we copy is not followed for ever. */
const maxPasses = 20
/** Of the limit: what is held in memory, and written again once the cut has made room for it, where the disk is full. */
const lastWordsShare = 0.05

/**
 * Moves what `file` holds to a piece of its own (of more than the limit the newest part) and cuts the file, to which the server goes on
 * appending. What it writes between the last look and the cut, some tenths of a millisecond, is gone.
 */
export async function cutOutput(file: string, limits: OutputLimits): Promise<LostOutput | undefined> {
  await using source = await open(file, 'r+')
  const from = endOf((await olderPieces(file)).at(-1))
  return await keepCopy(source, { file, from, limits }).then(
    () => undefined,
    (cause: unknown) => keepLastWords(source, { file, from, limits, cause }),
  )
}

async function keepCopy(
  source: FileHandle,
  { file, from, limits }: { file: string; from: number; limits: OutputLimits },
): Promise<void> {
  const copy = copyOf(file)
  const { size } = await source.stat()
  const first = size - Math.min(size, limits.count === 0 ? 0 : limits.bytes)
  await using target = await open(copy, 'w', 0o600)
  let copied = first
  for (let pass = 0; pass < maxPasses; pass++) {
    const end = (await source.stat()).size
    if (end <= copied) break
    copied = await copyRange(source, target, { from: copied, to: end })
  }
  await rename(copy, pieceName(file, from + first))
  await source.truncate()
}

/** The offset that was reached; before `to` where the file became shorter meanwhile. */
async function copyRange(
  source: FileHandle,
  target: FileHandle,
  { from, to }: { from: number; to: number },
): Promise<number> {
  const buffer = Buffer.allocUnsafe(Math.min(copyBytes, to - from))
  let at = from
  while (at < to) {
    const { bytesRead } = await source.read(buffer, 0, Math.min(buffer.length, to - at), at)
    if (bytesRead === 0) break
    await target.writeFile(buffer.subarray(0, bytesRead))
    at += bytesRead
  }
  return at
}

/** History is worth less than a disk that is not full: the file is cut in any case, which makes room for its last part. */
async function keepLastWords(
  source: FileHandle,
  { file, from, limits, cause }: { file: string; from: number; limits: OutputLimits; cause: unknown },
): Promise<LostOutput> {
  await rm(copyOf(file), { force: true })
  const { size } = await source.stat()
  const length = Math.min(size, Math.floor(limits.bytes * lastWordsShare))
  const { buffer, bytesRead } = await source.read(Buffer.alloc(length), 0, length, size - length)
  await source.truncate()
  const piece = pieceName(file, from + size - length)
  try {
    await writeFile(piece, buffer.subarray(0, bytesRead), { mode: 0o600 })
    return { bytes: size - length, cause }
  } catch {
    // The same trouble again: `cause` tells it.
    await rm(piece, { force: true })
    return { bytes: size, cause }
  }
}

/**
 * Keeps `count` pieces of all runs of a service together, the newest; `files` are those of the runs, oldest first. The last piece of a run
 * leaves an empty one in its place, which tells where the rest begins.
 */
export async function dropOldest(files: readonly string[], { count }: OutputLimits): Promise<void> {
  const runs = await Promise.all(files.map(async (file) => ({ file, pieces: await olderPieces(file) })))
  const all = runs.flatMap(({ file, pieces }) =>
    pieces.map((piece) => ({ file, piece, isLast: piece === pieces.at(-1) })),
  )
  for (const { file, piece, isLast } of all.slice(0, -Math.max(1, count))) {
    if (isLast && piece.size === 0) continue
    if (isLast) await writeFile(pieceName(file, endOf(piece)), '', { mode: 0o600 })
    await rm(piece.path, { force: true })
  }
}

const compareBytes = 4_096

/** An agent that was killed while it cut a file left a copy unfinished, or one of what the file still holds. */
export async function clearUnfinishedCut(file: string): Promise<void> {
  await rm(copyOf(file), { force: true })
  const run = await findRun(file)
  const [newest, current] = run?.pieces.slice(-2) ?? []
  if (newest === undefined || current === undefined || newest.size === 0 || current.size < newest.size) return
  const heads = await Promise.all([newest, current].map((piece) => headOf(piece, Math.min(compareBytes, newest.size))))
  if (heads[0]?.equals(heads[1] ?? Buffer.alloc(0)) === true) await rm(newest.path, { force: true })
}

async function headOf({ path }: Piece, length: number): Promise<Buffer> {
  await using handle = await open(path)
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, 0)
  return buffer.subarray(0, bytesRead)
}

const copyOf = (file: string): string => `${file}.copying`
