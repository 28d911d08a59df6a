import { lstat, readFile, rename } from 'node:fs/promises'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import { errorCode } from './errors.ts'

/** Our record beside a model file, `<file>.metalbar.json`. Fields we do not know are left to later versions. */
const sidecarSchema = z.object({
  /** For people: without credentials and query. */
  source: z.string(),
  /** What tells sources apart: see `sourceDigest`. */
  sourceSha256: z.string().regex(/^[0-9a-f]{64}$/),
  sizeBytes: z.int().positive(),
  completedAt: z.iso.datetime(),
  /** `adopted`: found without a record under the Go agent's name, so that only the name speaks for this source. */
  origin: z.enum(['downloaded', 'adopted']),
})
export type Sidecar = z.infer<typeof sidecarSchema>

export type SidecarState = { kind: 'absent' } | { kind: 'valid'; sidecar: Sidecar } | { kind: 'broken'; why: string }

export async function readSidecar(file: string): Promise<SidecarState> {
  const path = sidecarPath(file)
  try {
    const found = await lstat(path)
    if (!found.isFile()) return { kind: 'broken', why: 'it is not a regular file' }
    if (found.size > maxSidecarBytes) return { kind: 'broken', why: 'it is too long' }
    const parsed = sidecarSchema.safeParse(JSON.parse(await readFile(path, 'utf8')))
    return parsed.success
      ? { kind: 'valid', sidecar: parsed.data }
      : { kind: 'broken', why: z.prettifyError(parsed.error) }
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return { kind: 'absent' }
    if (error instanceof SyntaxError) return { kind: 'broken', why: 'it is not JSON' }
    throw error
  }
}

export async function writeSidecar(file: string, sidecar: Sidecar): Promise<void> {
  await writeFileAtomic(sidecarPath(file), `${JSON.stringify(sidecar, null, 2)}\n`)
}

/** Keeps a broken record for whoever wants to look, out of the way of the next one. */
export async function setSidecarAside(file: string): Promise<void> {
  await rename(sidecarPath(file), brokenSidecarPath(file))
}

/** As long as this lies beside a file without record, nothing is known about that file. */
export function brokenSidecarPath(file: string): string {
  return `${sidecarPath(file)}.broken`
}

/** Ours are a few hundred bytes. */
const maxSidecarBytes = 64 * 1024

function sidecarPath(file: string): string {
  return `${file}.metalbar.json`
}
