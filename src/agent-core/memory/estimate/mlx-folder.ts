import { open, readdir } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { readBounded } from '../../util/files.ts'
import { messageOf } from '../../util/message-of.ts'
import type { MlxInputs } from './mlx.ts'

/** safetensors allows 100 MB; the largest models stay below 4. */
const maxHeaderBytes = 64 * 1024 ** 2

const tensors = z.record(
  z.string(),
  z.looseObject({ data_offsets: z.tuple([z.number().int().nonnegative(), z.number().int().nonnegative()]).optional() }),
)

/** A folder that is no model, in one sentence. */
export class MlxFolderError extends Error {
  override readonly name = 'MlxFolderError'
}

/** Reads what an estimate needs of a folder with config.json and safetensors files. Throws MlxFolderError. */
export async function readMlxFolder(folder: string): Promise<Pick<MlxInputs, 'config' | 'tensorBytes'>> {
  const names = await readdir(folder).catch((cause: unknown) => {
    throw new MlxFolderError(`${folder} cannot be read: ${messageOf(cause)}.`, {
      cause,
    })
  })
  const files = names.filter((name) => name.endsWith('.safetensors')).sort()
  if (files.length === 0) {
    throw new MlxFolderError(`${folder} holds no safetensors files: give the folder of an MLX model, or a GGUF file.`)
  }
  let tensorBytes = 0
  for (const file of files) tensorBytes += await tensorBytesOf(path.join(folder, file))
  return { config: await configOf(path.join(folder, 'config.json')), tensorBytes }
}

/** A safetensors file: the length of its header in eight bytes, the header in JSON, and the tensors at its offsets. */
async function tensorBytesOf(file: string): Promise<number> {
  await using handle = await open(file)
  const { size } = await handle.stat()
  const length = Buffer.alloc(8)
  await handle.read(length, 0, 8, 0)
  const headerBytes = Number(length.readBigUInt64LE())
  const broken = (why: string, cause?: unknown) =>
    new MlxFolderError(`${file} is no safetensors file: ${why}. Fetch it again.`, { cause })
  if (size < 8 || headerBytes > Math.min(size - 8, maxHeaderBytes)) throw broken('it is too short for its header')
  const text = Buffer.alloc(headerBytes)
  await handle.read(text, 0, headerBytes, 8)
  let ends: number[]
  try {
    const header = tensors.parse(JSON.parse(text.toString('utf8')))
    ends = Object.values(header).map(({ data_offsets }) => data_offsets?.[1] ?? 0)
  } catch (cause) {
    throw broken('its header cannot be read', cause)
  }
  const bytes = Math.max(0, ...ends)
  if (8 + headerBytes + bytes > size) throw broken(`it has ${size} bytes of ${8 + headerBytes + bytes}`)
  return bytes
}

/** Those of the largest models have a few KiB. */
const maxConfigBytes = 1024 ** 2

/** Without one, or with one that is no JSON or no file of that size, the estimate is a guess and says so. */
async function configOf(file: string): Promise<unknown> {
  try {
    return JSON.parse((await readBounded(file, maxConfigBytes)).toString('utf8')) as unknown
  } catch {
    return undefined
  }
}
