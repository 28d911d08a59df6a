import { stat } from 'node:fs/promises'
import { errorCode } from '../../util/error-code.ts'
import { messageOf } from '../../util/message-of.ts'
import { untilAborted } from '../../util/until-aborted.ts'
import { KeptWorkers, startWorker } from '../../util/worker.ts'
import { GgufError, type GgufHeader, type GgufValue } from './gguf.ts'
import { FactsOfFiles } from '../facts-of-files.ts'
import type { HeaderAnswer } from './header-worker.ts'
import { headerOfFile } from './header.ts'

/** Real ones stay below 20 MiB: see maxHeaderBytes. */
const ordinaryBytes = 24 * 1024 * 1024

/** Far more than any header leaves behind; a header that needs more ends the thread and not the agent. */
const heapMiB = 256

const readers = new KeptWorkers(() => startWorker(new URL('./header-worker.ts', import.meta.url), { heapMiB }))

/**
 * The header of a file on this machine. Throws GgufError, or the signal's reason. What is read is bounded by the header (at most 64 MiB),
 * whatever the size of the file. One that is larger than any real one is read in a worker thread, which has little memory; an ordinary one
 * is not, since a thread takes 17 MiB, and leaves 14 MiB behind when it ends.
 */
export async function readGgufHeader(path: string, { signal }: { signal?: AbortSignal } = {}): Promise<GgufHeader> {
  await expectRegularFile(path)
  signal?.throwIfAborted()
  const reading = headerOfFile(path, { maxBytes: ordinaryBytes, signal }).catch((error: unknown) => {
    if (error instanceof GgufError || signal?.aborted === true) throw error
    throw unreadable(path, errorCode(error), error)
  })
  // A dead volume never answers, not even that a read was cancelled.
  const header = await (signal ? untilAborted(reading, signal) : reading)
  return header ?? (await readInThread(path, signal))
}

async function readInThread(path: string, signal: AbortSignal | undefined): Promise<GgufHeader> {
  const answer = await answerOfHeaderWorker(path, signal)
  if ('header' in answer) return answer.header
  if ('failure' in answer) throw new GgufError(answer.failure.reason, answer.failure.message)
  throw unreadable(path, answer.code, new Error(answer.message))
}

/** Opening a pipe or a device could wait for ever. */
async function expectRegularFile(path: string): Promise<void> {
  const found = await stat(path).catch((error: unknown) => {
    throw unreadable(path, errorCode(error), error)
  })
  if (found.isFile()) return
  throw new GgufError(
    'Unreadable',
    `${path} is ${found.isDirectory() ? 'a directory' : 'not a regular file'}: give the path of a GGUF file.`,
  )
}

async function answerOfHeaderWorker(path: string, signal: AbortSignal | undefined): Promise<HeaderAnswer> {
  try {
    return (await readers.ask(path, { signal })) as HeaderAnswer // the one thing that it posts
  } catch (error) {
    signal?.throwIfAborted()
    throw new GgufError('Unreadable', `${path} cannot be read: the thread that read it failed (${String(error)}).`, {
      cause: error,
    })
  }
}

function unreadable(path: string, code: string | undefined, cause: unknown): GgufError {
  const sentence =
    code === 'ENOENT' || code === 'ENOTDIR'
      ? 'does not exist on this machine: put the model file there or give another path'
      : code === 'EACCES' || code === 'EPERM'
        ? 'is not readable by this user: change its permissions'
        : `cannot be read (${messageOf(cause)}): check the volume it is on`
  return new GgufError('Unreadable', `${path} ${sentence}.`, { cause })
}

/** What the headers that are kept take in memory together; that of a large model takes less than 1 MiB. */
const maxKeptBytes = 32 * 1024 * 1024
/** So that no more than 64 are kept, however small they are: more than one machine serves. */
const leastWeight = maxKeptBytes / 64

/** Headers of files on this machine, each read once for the file as it is. */
export const keptGgufHeaders = (): FactsOfFiles<GgufHeader> =>
  new FactsOfFiles(readGgufHeader, (header) => Math.max(leastWeight, weightOf(header)), maxKeptBytes)

/** What it takes in memory, roughly. */
function weightOf({ metadata, tensors }: Pick<GgufHeader, 'metadata' | 'tensors'>): number {
  let bytes = 0
  for (const [key, value] of metadata) bytes += 2 * key.length + weightOfValue(value)
  for (const { name } of tensors) bytes += 2 * name.length + 100
  return bytes
}

function weightOfValue(value: GgufValue): number {
  if (typeof value === 'string') return 2 * value.length
  if (typeof value !== 'object') return 8
  return value.reduce<number>((sum, item) => sum + (typeof item === 'string' ? 2 * item.length + 16 : 8), 0)
}
