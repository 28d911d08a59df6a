import { rm } from 'node:fs/promises'
import path from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import { parseJson, readIfThere } from '../../agent-core/util/files.ts'
import type { LastUpdate } from '../../contract/app-bridge.ts'

/** After that the start has another reason than the update. */
const validMs = 300_000
const maxBytes = 10_000

const version = z.string().max(100)
const marker = z.object({ from: version, to: version, atMs: z.number() })
export type HandOver = z.infer<typeof marker>

const fileIn = (stateDir: string): string => path.join(stateDir, 'update.json')

/** Before the app ends for an update. Throws what the disk answers. */
export const writeHandOver = (stateDir: string, handOver: HandOver): Promise<void> =>
  writeFileAtomic(fileIn(stateDir), `${JSON.stringify(handOver)}\n`, { mode: 0o600 })

/** Once, at the next start. One that is torn, old or of the future counts as none. Throws what the disk answers. */
export async function takeHandOver(
  stateDir: string,
  runs: string,
  nowMs = Date.now(),
): Promise<LastUpdate | undefined> {
  const file = fileIn(stateDir)
  const text = await readIfThere(file, maxBytes)
  if (text === undefined) return undefined
  await rm(file, { force: true })
  const found = marker.safeParse(parseJson(text))
  if (!found.success || Math.abs(nowMs - found.data.atMs) > validMs) return undefined
  return { wanted: found.data.to, runs }
}
