import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import { parseJson } from '../util/files.ts'
import { readOrSetAside } from './state-file.ts'

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
  const { file, displayName = hostname(), newId = randomUUID, now } = options
  const read = (text: string) => nodeFile.safeParse(parseJson(text)).data
  const { value: known, aside } = await readOrSetAside(file, read, { now })
  if (known) return { nodeId: known.nodeId, displayName, notice: undefined }
  const content: z.infer<typeof nodeFile> = { schema: 1, nodeId: newId() }
  await writeFileAtomic(file, `${JSON.stringify(content)}\n`, { mode: 0o600 })
  const notice =
    aside &&
    `The node id in ${file} could not be read and was set aside as ${aside}: this host has a new one, and waits for claims of the old one to expire.`
  return { nodeId: content.nodeId, displayName, notice }
}
