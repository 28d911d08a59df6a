import { open, stat } from 'node:fs/promises'
import { errorCode } from '../../util/error-code.ts'
import { messageOf } from '../../util/message-of.ts'
import { FactsOfFiles } from '../facts-of-files.ts'
import { GgufError, type GgufHeader } from './gguf.ts'
import { readHeader } from './header.ts'

/** The header of a file on this machine. Throws GgufError. At most 64 MiB are read, whatever the size of the file. */
export async function readGgufHeader(path: string): Promise<GgufHeader> {
  try {
    await expectRegularFile(path)
    await using file = await open(path, 'r')
    const { size } = await file.stat()
    const read = async (wanted: number): Promise<Buffer> => {
      const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(Math.min(wanted, size)), { position: 0 })
      return buffer.subarray(0, bytesRead)
    }
    return await readHeader({ name: path, fileBytes: size, read })
  } catch (error) {
    throw error instanceof GgufError ? error : unreadable(path, error)
  }
}

/** Opening a pipe or a device could wait for ever. */
async function expectRegularFile(path: string): Promise<void> {
  const found = await stat(path)
  if (found.isFile()) return
  const what = found.isDirectory() ? 'a directory' : 'not a regular file'
  throw new GgufError(`${path} is ${what}: give the path of a GGUF file.`)
}

function unreadable(path: string, cause: unknown): GgufError {
  const code = errorCode(cause)
  const sentence =
    code === 'ENOENT' || code === 'ENOTDIR'
      ? 'does not exist on this machine: put the model file there or give another path'
      : code === 'EACCES' || code === 'EPERM'
        ? 'is not readable by this user: change its permissions'
        : `cannot be read (${messageOf(cause)}): check the volume it is on`
  return new GgufError(`${path} ${sentence}.`, { cause })
}

/** What the headers that are kept take in memory together; that of a large model takes less than 1 MiB. */
const maxKeptBytes = 32 * 1024 ** 2
/** So that no more than 64 are kept, however small they are: more than one machine serves. */
const leastWeight = maxKeptBytes / 64

/** Headers of files on this machine, each read once for the file as it is. */
export const keptGgufHeaders = (): FactsOfFiles<GgufHeader> =>
  new FactsOfFiles(readGgufHeader, (header) => Math.max(leastWeight, mostBytes(header)), maxKeptBytes)

/** No more than it takes in memory, roughly: a value is a list of at most 512 numbers or a text of 1 KiB. */
const mostBytes = ({ metadata, tensors }: GgufHeader): number => 4_096 * metadata.size + 250 * tensors.length
