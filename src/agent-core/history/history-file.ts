import { appendFile, readFile, stat } from 'node:fs/promises'
import { basename } from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { historyEntry, type HistoryEntry } from '../../contract/queries.ts'
import { setAside } from '../state/state-file.ts'
import { hasCode, parseJson } from '../util/files.ts'

/** Ours is bounded far below: a larger file is not ours, or would cost the agent its memory. */
const maxReadableBytes = 8 * 1_024 * 1_024

export interface HistoryFound {
  readonly entries: readonly HistoryEntry[]
  /** Of the file; undefined = it must be written anew. */
  readonly bytes: number | undefined
  /** What a person should know. */
  readonly notice: string | undefined
}

/** Reads the entries, oldest first; a file in which more than the last line is broken is set aside. Throws the error of the disk. */
export async function readHistory(file: string, now: () => number): Promise<HistoryFound> {
  const size = await sizeOf(file)
  if (size === 0) return { entries: [], bytes: 0, notice: undefined }
  const lines = size > maxReadableBytes ? undefined : (await readFile(file, 'utf8')).split('\n')
  const rest = lines?.pop()
  const read = lines?.map((line) => historyEntry.safeParse(parseJson(line)).data) ?? []
  const entries = read.filter((entry) => entry !== undefined).filter(isAfterTheOnesBefore())
  if (lines && entries.length === lines.length) {
    return rest === ''
      ? { entries, bytes: size, notice: undefined }
      : {
          entries,
          bytes: undefined,
          notice: `The last entry of ${file} was cut off by the end of the agent and is left out.`,
        }
  }
  const aside = await setAside(file, now)
  const notice = `${file} could not be understood and was set aside as ${basename(aside)}: of what happened before, ${entries.length} entries are still known.`
  return { entries, bytes: undefined, notice }
}

export const lineOf = (entry: HistoryEntry): string => `${JSON.stringify(entry)}\n`

/** Throws what the disk answers. */
export async function appendHistory(file: string, entries: readonly HistoryEntry[]): Promise<void> {
  await appendFile(file, entries.map(lineOf).join(''), { mode: 0o600 })
}

/** As {@link appendHistory}, in place of all that was there. */
export async function rewriteHistory(file: string, entries: readonly HistoryEntry[]): Promise<void> {
  await writeFileAtomic(file, entries.map(lineOf).join(''), { mode: 0o600 })
}

/** Pages rely on ids that rise. */
const isAfterTheOnesBefore = () => {
  let last = 0
  return ({ id }: HistoryEntry): boolean => {
    if (id <= last) return false
    last = id
    return true
  }
}

async function sizeOf(file: string): Promise<number> {
  try {
    return (await stat(file)).size
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return 0
    throw error
  }
}
