import { open, readFile, rename, rm } from 'node:fs/promises'
import { uptime } from 'node:os'
import { z } from 'zod'
import { coveredBytes } from './byte-ranges.ts'
import { hasCode, parseJson } from '../../util/files.ts'

const digest = z.string().regex(/^[0-9a-f]{64}$/)
const offset = z.int().nonnegative()

/** What is known of a partial file; another version of the agent may have written it. */
const partialStateSchema = z.object({
  version: z.literal(1),
  /** SHA-256 of the address as asked for: the address itself may hold a login. */
  urlSha256: digest,
  /** What the request said of the file. */
  wanted: z.object({ sizeBytes: offset.optional(), sha256: digest.optional(), etag: z.string().optional() }),
  /** What the server said of it. */
  remote: z.object({
    sizeBytes: offset.optional(),
    etag: z.string().optional(),
    lastModified: z.string().optional(),
  }),
  /** Bytes that are in the file: [first, one after the last]. */
  ranges: z.array(z.tuple([offset, offset])).max(10_000),
  /** Digest of the file's beginning: tells whether the file still holds what was written. */
  prefix: z.object({ bytes: offset, sha256: digest }),
  /** When this machine started, in ms since 1970. */
  bootedAt: z.number(),
})
export type PartialState = z.infer<typeof partialStateSchema>

/**
 * Two records beside the partial file. `recent` is written every few MiB without waiting for the disk: it outlives the
 * process, and is believed only until the machine restarts. `durable` is written after the file's bytes were synced,
 * and is synced itself: it outlives a power cut.
 */
export async function readPartialState(partialPath: string, now: number): Promise<PartialState | undefined> {
  const recent = await readState(recentPath(partialPath))
  const durable = await readState(durablePath(partialPath))
  if (recent === undefined || Math.abs(recent.bootedAt - bootedAt(now)) >= sameBootMs) return durable
  return durable !== undefined && coveredBytes(durable.ranges) >= coveredBytes(recent.ranges) ? durable : recent
}

export async function writePartialState(
  partialPath: string,
  state: PartialState,
  kind: 'recent' | 'durable',
): Promise<void> {
  const path = kind === 'recent' ? recentPath(partialPath) : durablePath(partialPath)
  // Always the same name, so that kills in between leave one file behind and not one each.
  const draft = `${path}.new`
  try {
    await writeDraft(draft, `${JSON.stringify(state)}\n`, kind === 'durable')
    await rename(draft, path)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
}

export async function removePartialState(partialPath: string): Promise<void> {
  for (const path of [recentPath(partialPath), durablePath(partialPath)]) {
    await rm(path, { force: true })
    await rm(`${path}.new`, { force: true })
  }
}

export function bootedAt(now: number): number {
  return Math.round(now - uptime() * 1000)
}

/** Clocks are corrected by less while a machine runs; a wrong guess only costs the bytes since the last sync. */
const sameBootMs = 30_000

function recentPath(partialPath: string): string {
  return `${partialPath}.recent.json`
}

function durablePath(partialPath: string): string {
  return `${partialPath}.json`
}

async function writeDraft(draft: string, text: string, durable: boolean): Promise<void> {
  const handle = await open(draft, 'w', 0o644)
  try {
    await handle.writeFile(text)
    if (durable) await handle.sync()
  } finally {
    await handle.close()
  }
}

async function readState(path: string): Promise<PartialState | undefined> {
  try {
    return partialStateSchema.safeParse(parseJson(await readFile(path, 'utf8'))).data
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
}
