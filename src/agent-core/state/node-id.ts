import { randomUUID } from 'node:crypto'
import { rename } from 'node:fs/promises'
import { hostname } from 'node:os'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import { parseJson, readIfThere } from '../util/files.ts'

const nodeFile = z.object({ schema: z.literal(1), nodeId: z.uuid() })

export interface NodeIdentity {
  /** Random, kept for as long as the state folder; the name under which this host claims services. */
  readonly nodeId: string
  /** For people; may change with the host's name. */
  readonly displayName: string
  /** What a person should know, such as that the old id could not be read. */
  readonly notice: string | undefined
}

export interface NodeIdOptions {
  readonly file: string
  readonly displayName?: string
  readonly newId?: () => string
  readonly now?: () => number
}

/** Reads or makes this host's identity. A file that cannot be understood is set aside; throws what the disk answers. */
export async function loadNodeId(options: NodeIdOptions): Promise<NodeIdentity> {
  const { file, displayName = hostname(), newId = randomUUID, now = Date.now } = options
  const text = await readIfThere(file)
  const known = text === undefined ? undefined : nodeFile.safeParse(parseJson(text)).data?.nodeId
  if (known !== undefined) return { nodeId: known, displayName, notice: undefined }
  let notice: string | undefined
  if (text !== undefined) {
    const aside = `${file}.broken-${now()}`
    await rename(file, aside)
    notice = `The node id in ${file} could not be read and was set aside as ${aside}: this host has a new one, and waits for claims of the old one to expire.`
  }
  const nodeId = newId()
  const content: z.infer<typeof nodeFile> = { schema: 1, nodeId }
  await writeFileAtomic(file, `${JSON.stringify(content)}\n`, { mode: 0o600 })
  return { nodeId, displayName, notice }
}
