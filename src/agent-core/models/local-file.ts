import { open, stat } from 'node:fs/promises'
import { messageOf } from '../util/message-of.ts'
import { errorCode, ownFailure } from '../util/error-code.ts'
import { localRepairMs, ModelError, type ModelErrorReason } from './errors.ts'
import { expectsGguf, isGguf, magicLength } from './content.ts'

/** A model used in place: checked, never copied, changed or deleted. Returns its size in bytes; throws ModelError. */
export async function checkLocalFile(path: string): Promise<number> {
  const found = await stat(path).catch((error: unknown) => {
    throw unreadable(path, error)
  })
  if (found.isDirectory()) {
    throw new ModelError('terminal', 'NotAFile', `${path} is a directory: give the path of the model file in it.`)
  }
  if (!found.isFile())
    throw new ModelError('terminal', 'NotAFile', `${path} is not a regular file: give the path of a model file.`)
  if (found.size === 0) throw repairable('EmptyFile', `${path} is empty: put the model file there.`)
  const start = await firstBytes(path).catch((error: unknown) => {
    throw unreadable(path, error)
  })
  if (expectsGguf(path) && !isGguf(start)) {
    throw repairable('NotAModel', `${path} is not a GGUF file although its name says so: put a model file there.`)
  }
  return found.size
}

/** The file's first bytes, enough for `isGguf`. */
export async function firstBytes(path: string): Promise<Buffer> {
  const handle = await open(path)
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(magicLength), 0, magicLength, 0)
    return buffer.subarray(0, bytesRead)
  } finally {
    await handle.close()
  }
}

function unreadable(path: string, error: unknown): ModelError {
  switch (errorCode(error)) {
    case 'ENOENT':
    case 'ENOTDIR':
      return repairable(
        'FileMissing',
        `${path} does not exist on this machine: put the model file there or change spec.source.`,
        error,
      )
    case 'EACCES':
    case 'EPERM':
      return repairable('FileUnreadable', `${path} may not be read by this user: change its permissions.`, error)
    default: {
      const own = ownFailure(error)
      return repairable(
        'FileUnreadable',
        own === undefined
          ? `${path} cannot be read (${messageOf(error)}): check the volume it is on.`
          : `${path} cannot be read (${own}): the agent tries again.`,
        error,
      )
    }
  }
}

function repairable(reason: ModelErrorReason, message: string, cause?: unknown): ModelError {
  return new ModelError('transient', reason, message, { cause, retryAfterMs: localRepairMs })
}
