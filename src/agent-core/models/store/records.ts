import { createHash } from 'node:crypto'
import type { Dirent } from 'node:fs'
import { readFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import PQueue from 'p-queue'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import type { Logger } from '../../observability/logger.ts'
import { parseJson, withoutUnfinished } from '../../util/files.ts'
import { pathBelow } from '../../util/is-below.ts'
import { stateOfFile } from '../facts-of-files.ts'
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

/** Which namespaces the source gave the content to; absent where another agent or a person put it there. */
const access = z.object({
  /** Without any login. */
  isPublic: z.boolean(),
  /** With the login of a Model in them; `''` is the person at this machine. */
  namespaces: z.array(z.string().max(253)).max(1_000),
  /** A login for the Hub was sent for it: knowing its address alone opens nothing, also where it is no longer an address of the Hub. */
  isByLogin: z.boolean().optional(),
  /** A Secret named the server, so that the same source may mean something else with another Secret. */
  isOwnServer: z.boolean().optional(),
})
export type Access = z.infer<typeof access>

/** Our record of one model, beside its main file as `<file>.metalbar.json`. Fields we do not know are left to later versions. */
const manifestSchema = z.object({
  schema: z.literal(1),
  /** For people: without credentials and query. */
  source: z.string(),
  /** What tells sources apart: see `selectionDigest`. */
  sourceSha256: sha256,
  /** By the wall clock, for people: see `sequence`. */
  completedAt: z.iso.datetime(),
  /** `adopted`: found without a record under the Go agent's name, so that only the name speaks for this source. */
  origin: z.enum(['downloaded', 'adopted']),
  /**
   * The newest of several contents of one source has the highest. Absent in records of files that were found here, which are older than
   * all that have one.
   */
  sequence: z.int().nonnegative().optional(),
  /** The Hub's commit, or what else the server calls this content; tells contents of one source apart. */
  revision: z.string().max(1_000).optional(),
  files: z.array(manifestFile).min(1).max(10_000),
  /** The file that a runtime is given; empty = the folder. */
  primary: z.union([z.literal(''), relativePath]),
  mmproj: relativePath.optional(),
  lastUsedAt: z.iso.datetime().optional(),
  header: headerSummary.optional(),
  /**
   * The namespace of the Model that the files belong to; a Model of another namespace never replaces or deletes them. `''` = they are a person's. Absent =
   * not known yet: they were found here.
   */
  namespace: z.string().max(253).optional(),
  access: access.optional(),
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
  if (file.sha256 === undefined || (origin === 'downloaded' && hashedState === undefined)) return file
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

/** Sorts contents of one source, newest first. */
export const newestFirst = (a: Manifest, b: Manifest): number => (b.sequence ?? -1) - (a.sequence ?? -1)

/** Whether the bytes may be given to the namespace without asking their source once more. `''` is the person at this machine. */
export const isOpenTo = ({ access }: Pick<Manifest, 'access'>, namespace: string): boolean =>
  access !== undefined && (access.isPublic || access.namespaces.includes(namespace))

/** No login of a namespace fetched it: another agent, or a person, put it there. */
export const isFound = ({ access, origin }: Pick<Manifest, 'access' | 'origin'>): boolean =>
  access === undefined && origin === 'adopted'

/** The others are asked again. */
const maxNamespaces = 1_000

/** See `Access.isOwnServer`. */
export const isOfOwnServer = ({ access }: Pick<Manifest, 'access'>): boolean => access?.isOwnServer === true

/** After the source gave, or would give, the files to the namespace; `isPublic`: to everybody; `isByLogin`: for a login that was sent. */
export const accessAfter = (
  before: Access | undefined,
  given: Pick<Access, 'isPublic' | 'isByLogin' | 'isOwnServer'> & { readonly namespace: string },
): Access => ({
  isPublic: given.isPublic || before?.isPublic === true,
  namespaces: [...new Set([...(before?.namespaces ?? []), given.namespace])].slice(-maxNamespaces),
  ...((given.isByLogin === true || before?.isByLogin === true) && { isByLogin: true }),
  ...((given.isOwnServer === true || before?.isOwnServer === true) && { isOwnServer: true }),
})

export interface Recorded {
  /** Where the record is. */
  readonly path: string
  readonly manifest: Manifest
}

/** The records of a store. One is changed at a time, so that no change undoes another that came meanwhile. */
export class StoreRecords {
  readonly #log: Logger
  readonly #changes = new PQueue({ concurrency: 1 })

  constructor(log: Logger) {
    this.#log = log
  }

  /** Reads the records of a Model's folder and of its other sources' folders. Throws where they cannot be read: a file without its record would be open to every namespace. */
  async of(folder: string): Promise<Recorded[]> {
    const entries = await entriesOf(folder)
    const below = entries.filter((entry) => entry.isDirectory() && sourceFolder.test(entry.name))
    const deeper = await Promise.all(below.map(({ name }) => this.in(join(folder, name))))
    return [...(await this.#read(folder, entries)), ...deeper.flat()]
  }

  /** Reads the records of this folder alone. */
  async in(folder: string): Promise<Recorded[]> {
    return this.#read(folder, await entriesOf(folder))
  }

  /** Makes it the newest of its source in the Model's folder. */
  async write(path: string, manifest: Manifest, folder: string): Promise<Manifest> {
    return this.#changes.add(async () => {
      const newest = await this.#asNewest({ path, manifest }, folder)
      await this.#save(path, newest)
      return newest
    })
  }

  /** False where there is a record by now. */
  async add({ path, manifest }: Recorded): Promise<boolean> {
    return this.#changes.add(async () => {
      if ((await lstatIfThere(path)) !== undefined) return false
      await this.#save(path, manifest)
      return true
    })
  }

  /**
   * What the record says after the change, which is made of what it says by now; undefined where it is another record by now. With
   * `newestIn`, the Model's folder, it is the newest of its source from then on.
   */
  async change(
    { path, manifest: known }: Recorded,
    changed: (now: Manifest) => Manifest,
    newestIn?: string,
  ): Promise<Manifest | undefined> {
    return this.#changes.add(async () => {
      const state = await readManifest(path)
      if (state.kind !== 'valid' || !isSameRecord(state.manifest, known)) return undefined
      const next = changed(state.manifest)
      const manifest = newestIn === undefined ? next : await this.#asNewest({ path, manifest: next }, newestIn)
      await this.#save(path, manifest)
      return manifest
    })
  }

  /**
   * Deletes the record after what it names, unless it is another record by now. A crash in between leaves a record without files, never a
   * file that no record keeps from other namespaces.
   */
  async remove({ path, manifest }: Recorded, removeFiles: () => Promise<void>): Promise<void> {
    await this.#changes.add(async () => {
      const state = await readManifest(path)
      if (state.kind === 'valid' && !isSameRecord(state.manifest, manifest)) return
      await removeFiles()
      await rm(path, { force: true })
    })
  }

  /** Sets broken ones aside, and removes those that a killed agent left unfinished. */
  async #read(folder: string, entries: readonly Dirent[]): Promise<Recorded[]> {
    const all = entries.map(({ name }) => name)
    const names = await withoutUnfinished(folder, all)
    const read = names
      .filter((name) => name.endsWith(manifestSuffix))
      .map(async (name) => {
        const path = join(folder, name)
        const state = await readManifest(path)
        if (state.kind === 'broken') await this.#setAside(path, state.why)
        return state.kind === 'valid' ? [{ path, manifest: state.manifest }] : []
      })
    return (await Promise.all(read)).flat()
  }

  async #asNewest({ path, manifest }: Recorded, folder: string): Promise<Manifest> {
    const others = (await this.of(folder)).filter(
      (other) => other.path !== path && other.manifest.sourceSha256 === manifest.sourceSha256,
    )
    const last = Math.max(0, ...others.map((other) => other.manifest.sequence ?? 0))
    return { ...manifest, sequence: Math.max(last + 1, manifest.sequence ?? 0) }
  }

  #save(path: string, manifest: Manifest): Promise<void> {
    return writeFileAtomic(path, `${JSON.stringify(manifest, null, 2)}\n`)
  }

  async #setAside(path: string, why: string): Promise<void> {
    const aside = `${path}${brokenSuffix}`
    try {
      await rename(path, aside)
      this.#log.warn('broken record of a model set aside', { path: aside, why })
    } catch (error) {
      this.#log.warn('broken record of a model cannot be set aside', { path, why, error })
    }
  }
}

export function isNamedBy({ path: record, manifest }: Recorded, path: string): boolean {
  const folder = dirname(record)
  return manifest.files.some((file) => comparable(pathBelow(folder, file.path)) === comparable(path))
}

/** Folder of a further source of a Model, where the Model's own folder holds another source. */
const sourceFolder = new RegExp(`^[0-9a-f]{${shortDigestLength}}(-\\d+)?$`)

const isSameRecord = (a: Manifest, b: Manifest): boolean =>
  a.sourceSha256 === b.sourceSha256 && a.sequence === b.sequence && a.completedAt === b.completedAt
