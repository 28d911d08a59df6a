import { createHash } from 'node:crypto'
import type { Dirent } from 'node:fs'
import { readFile, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import type { Logger } from '../../observability/logger.ts'
import { parseJson, stateOfFile, withoutUnfinished } from '../../util/files.ts'
import { pathBelow } from '../../util/is-below.ts'
import { shortDigestLength } from '../source.ts'
import { comparable, entriesOf, ifThere, lstatIfThere } from './files.ts'

const sha256 = z.string().regex(/^[0-9a-f]{64}$/)

/** A path below the manifest's folder that cannot leave it, however it is read. */
const relativePath = z
  .string()
  .max(1_000)
  .refine(
    (path) =>
      path.split('/').every((element) => element !== '' && element !== '.' && element !== '..') &&
      !/[\\\p{Cc}]/u.test(path),
    'must stay in its folder',
  )

const manifestFile = z.object({
  path: relativePath,
  sizeBytes: z.int().positive(),
  /** Absent where it was not computed: the file was found here. */
  sha256: sha256.optional(),
  /** The state of a file that was found in the store when its `sha256` was computed (`stateOfFile`). */
  hashedState: z.string().max(200).optional(),
  /** As the server gave it. */
  etag: z.string().max(1_000).optional(),
})
export type ManifestFile = z.infer<typeof manifestFile>

/** What a list of models says of a file's header. */
const headerSummary = z.object({
  architecture: z.string(),
  quantization: z.string().optional(),
  contextLength: z.number().optional(),
})

/** Our record of one model, beside its main file as `<file>.metalbar.json`. Fields we do not know are left to later versions. */
const manifestSchema = z.object({
  schema: z.literal(1),
  /** For people: without credentials and query. */
  source: z.string(),
  /** What tells sources apart: see `selectionDigest`. */
  sourceSha256: sha256,
  /** When it was complete. The newest content of a source has the latest time, whatever the clock said. */
  completedAt: z.iso.datetime(),
  /**
   * `pulled`: by a person, who alone deletes it. `adopted`: found without a record under the Go agent's name, so that only the name speaks
   * for this source.
   */
  origin: z.enum(['downloaded', 'pulled', 'adopted']),
  files: z.array(manifestFile).min(1).max(10_000),
  /** The file that a runtime is given; empty = the folder. */
  primary: z.union([z.literal(''), relativePath]),
  mmproj: relativePath.optional(),
  lastUsedAt: z.iso.datetime().optional(),
  header: headerSummary.optional(),
})
export type Manifest = z.infer<typeof manifestSchema>

export type ManifestState = { kind: 'absent' } | { kind: 'valid'; manifest: Manifest } | { kind: 'broken'; why: string }

/** Thousands of files take less. */
const maxManifestBytes = 4 * 1024 * 1024

/** Reads the record at `path`, without the digest of a file that may be another now. */
export async function readManifest(path: string): Promise<ManifestState> {
  const found = await lstatIfThere(path)
  if (found?.isFile() === false) return { kind: 'broken', why: 'it is not a regular file' }
  if (found && found.size > maxManifestBytes) return { kind: 'broken', why: 'it is too long' }
  const text = found && (await ifThere(readFile(path, 'utf8')))
  if (text === undefined) return { kind: 'absent' }
  const content = parseJson(text)
  if (content === undefined) return { kind: 'broken', why: 'it is not JSON' }
  const parsed = manifestSchema.safeParse(content)
  if (!parsed.success) return { kind: 'broken', why: z.prettifyError(parsed.error) }
  const manifest = parsed.data
  const files = await Promise.all(manifest.files.map((file) => withValidDigest(file, manifest.origin, dirname(path))))
  return { kind: 'valid', manifest: { ...manifest, files } }
}

/** Drops the digest of a file that was found in the store and has been replaced since. A download's digest was computed before it was stored, and stays. */
async function withValidDigest(file: ManifestFile, origin: Manifest['origin'], folder: string): Promise<ManifestFile> {
  const { sha256: _, hashedState, ...rest } = file
  if (file.sha256 === undefined || (origin !== 'adopted' && hashedState === undefined)) return file
  const state = await ifThere(stateOfFile(pathBelow(folder, file.path)))
  return state === hashedState ? file : rest
}

export const manifestSuffix = '.metalbar.json'

/** A broken record is kept under this name, for a person to look at. While it lies beside a file without record, nothing is known about that file. */
export const brokenSuffix = '.broken'

/** Tells contents of one source apart by the best that is known: hashes, else the server's ETags, else lengths. */
export function contentRevision(files: readonly ManifestFile[]): string {
  const known = files.map(({ path, sizeBytes, sha256: hash, etag }) => [path, hash ?? etag ?? sizeBytes])
  return createHash('sha256').update(JSON.stringify(known)).digest('hex')
}

export interface Recorded {
  /** Where the record is. */
  readonly path: string
  readonly manifest: Manifest
}

/** The records of a Model's folder and of its other sources' folders. */
export async function recordsOf(folder: string, log: Logger): Promise<Recorded[]> {
  const entries = await entriesOf(folder)
  const records = await readRecords(folder, entries, log)
  for (const entry of entries) {
    if (entry.isDirectory() && sourceFolder.test(entry.name))
      records.push(...(await recordsIn(join(folder, entry.name), log)))
  }
  return records
}

/** The records of this folder alone. */
export async function recordsIn(folder: string, log: Logger): Promise<Recorded[]> {
  return readRecords(folder, await entriesOf(folder), log)
}

/** Sets broken ones aside, and removes those that a killed agent left unfinished. */
async function readRecords(folder: string, entries: readonly Dirent[], log: Logger): Promise<Recorded[]> {
  const all = entries.map(({ name }) => name)
  const names = await withoutUnfinished(folder, all)
  const records: Recorded[] = []
  for (const name of names.filter((one) => one.endsWith(manifestSuffix))) {
    const path = join(folder, name)
    const state = await readManifest(path)
    if (state.kind === 'broken') await setAside(path, state.why, log)
    if (state.kind === 'valid') records.push({ path, manifest: state.manifest })
  }
  return records
}

async function setAside(path: string, why: string, log: Logger): Promise<void> {
  const aside = `${path}${brokenSuffix}`
  try {
    await rename(path, aside)
    log.warn('broken record of a model set aside', { path: aside, why })
  } catch (error) {
    log.warn('broken record of a model cannot be set aside', { path, why, error })
  }
}

export const writeRecord = ({ path, manifest }: Recorded): Promise<void> =>
  writeFileAtomic(path, `${JSON.stringify(manifest, null, 2)}\n`)

/** The files of a record, as their paths compare. */
export const namedBy = ({ path: record, manifest }: Recorded): string[] =>
  manifest.files.map((file) => comparable(pathBelow(dirname(record), file.path)))

/** Folder of a further source of a Model, where the Model's own folder holds another source. */
const sourceFolder = new RegExp(`^[0-9a-f]{${shortDigestLength}}(-\\d+)?$`)

/** Whether a record that was read later is of the same content. */
export const isSameRecord = (a: Manifest, b: Manifest): boolean =>
  a.sourceSha256 === b.sourceSha256 && a.completedAt === b.completedAt
