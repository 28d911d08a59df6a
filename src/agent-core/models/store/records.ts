import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import { parseJson } from '../../util/files.ts'
import { ifThere, lstatIfThere } from './files.ts'

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

/** What is recorded of one model. Fields we do not know are left to later versions. */
const manifestSchema = z.object({
  schema: z.literal(1),
  /** Name of the Model that it was fetched for. */
  model: z.string(),
  /** The namespace of that Model; empty where a person fetched it. */
  namespace: z.string(),
  /** For people: without credentials and query. */
  source: z.string(),
  /** What tells sources apart: see `selectionDigest`. */
  sourceSha256: sha256,
  /** When it was complete. The newest content of a source has the latest time, whatever the clock said. */
  completedAt: z.iso.datetime(),
  /** `pulled`: by a person, who alone deletes it. `adopted`: it lay in the store under the Go agent's name, so that only the name speaks for this source. */
  origin: z.enum(['downloaded', 'pulled', 'adopted']),
  files: z.array(manifestFile).min(1).max(10_000),
  /** The file that a runtime is given; empty = the folder. */
  primary: z.union([z.literal(''), relativePath]),
  mmproj: relativePath.optional(),
  lastUsedAt: z.iso.datetime().optional(),
  header: headerSummary.optional(),
})
export type Manifest = z.infer<typeof manifestSchema>

/** Thousands of files take less. */
const maxManifestBytes = 4 * 1024 * 1024

/** The record at `path`; undefined where there is none that can be read. */
export async function readManifest(path: string): Promise<Manifest | undefined> {
  const found = await lstatIfThere(path)
  if (found?.isFile() !== true || found.size > maxManifestBytes) return undefined
  return manifestSchema.safeParse(parseJson((await ifThere(readFile(path, 'utf8'))) ?? '')).data
}

/** No file of a model has a name that ends like this. */
export const recordSuffix = '.metalbar.json'

/** Tells contents of one source apart by the best that is known: hashes, else the server's ETags, else lengths. */
export function contentRevision(files: readonly ManifestFile[]): string {
  const known = files.map(({ path, sizeBytes, sha256: hash, etag }) => [path, hash ?? etag ?? sizeBytes])
  return createHash('sha256').update(JSON.stringify(known)).digest('hex')
}

export const writeManifest = (path: string, manifest: Manifest): Promise<void> =>
  writeFileAtomic(path, `${JSON.stringify(manifest, null, 2)}\n`)

/** Whether a record that was read later is of the same content. */
export const isSameContent = (a: Manifest, b: Manifest): boolean =>
  a.sourceSha256 === b.sourceSha256 && a.completedAt === b.completedAt
