import { readdir, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { hasCode } from '../util/files.ts'

/** A file with a part of what one run of a server wrote. */
export interface Piece {
  readonly path: string
  /** Of its first byte, counted from the beginning of the run. */
  readonly from: number
  readonly size: number
}

/** What is kept of one run's output: pieces in their order, the last of which is the file that the server writes to. */
export interface OutputRun {
  /** Other than that of any other run, also after the file was cut. */
  readonly fileId: string
  readonly file: string
  readonly pieces: readonly Piece[]
}

/** Digits enough for a petabyte, and a folder listed by name is in order. */
const offsetDigits = 15

/** The offset is in the name, so that the file needs no book kept about it. */
export const pieceName = (file: string, from: number): string => `${file}.${String(from).padStart(offsetDigits, '0')}`

export const endOf = (piece: Piece | undefined): number => (piece === undefined ? 0 : piece.from + piece.size)

/** Undefined where there is no such file. */
export async function findRun(file: string): Promise<OutputRun | undefined> {
  const found = await statIfThere(file)
  if (found === undefined) return undefined
  const older = await olderPieces(file)
  return {
    fileId: `${found.ino}-${found.birthtimeNs}`,
    file,
    pieces: [...older, { path: file, from: endOf(older.at(-1)), size: Number(found.size) }],
  }
}

/** What was copied off `file`, oldest first. */
export async function olderPieces(file: string): Promise<Piece[]> {
  const [folder, prefix] = [dirname(file), `${basename(file)}.`]
  const found = (await namesIn(folder)).flatMap((name) => {
    const digits = name.startsWith(prefix) ? name.slice(prefix.length) : ''
    return /^\d+$/.test(digits) && digits.length === offsetDigits ? [{ name, from: Number(digits) }] : []
  })
  const pieces = await Promise.all(
    found.map(async ({ name, from }) => {
      const path = join(folder, name)
      const size = (await statIfThere(path))?.size
      return size === undefined ? [] : [{ path, from, size: Number(size) }]
    }),
  )
  return pieces.flat().toSorted((a, b) => a.from - b.from)
}

/** Empty where there is no such folder. */
export async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if (isAbsent(error)) return []
    throw error
  }
}

/** When it was written to last, in milliseconds since 1970; 0 where it is not there. */
export const changedAt = async (file: string): Promise<number> => Number((await statIfThere(file))?.mtimeMs ?? 0)

async function statIfThere(file: string) {
  try {
    return await stat(file, { bigint: true })
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw error
  }
}

export const isAbsent = (error: unknown): boolean => hasCode(error, 'ENOENT')
