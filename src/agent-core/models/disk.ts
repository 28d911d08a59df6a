import { statfs } from 'node:fs/promises'
import { formatBytes } from '../../contract/format.ts'
import { messageOf } from '../util/message-of.ts'
import { errorCode, ownFailure } from '../util/error-code.ts'
import { localRepairMs, ModelError } from './errors.ts'

/** Names what went wrong while writing below the store; a ModelError passes unchanged. */
export async function storeError(error: unknown, folder: string, neededBytes?: number): Promise<ModelError> {
  if (error instanceof ModelError) return error
  switch (errorCode(error)) {
    case 'ENOSPC':
    case 'EDQUOT':
      return diskFull(folder, neededBytes, error)
    case 'EROFS':
      return repairable(
        'StoreReadOnly',
        `The model store ${folder} is on a read-only volume: mount it writable or choose another --model-store.`,
        error,
      )
    case 'EACCES':
    case 'EPERM':
      return repairable(
        'StoreNotWritable',
        `The model store ${folder} may not be written by this user: change its permissions or choose another --model-store.`,
        error,
      )
    default: {
      const own = ownFailure(error)
      return repairable(
        'StoreUnusable',
        own === undefined
          ? `The model store ${folder} cannot be used (${messageOf(error)}): repair it or choose another --model-store.`
          : `The model store ${folder} cannot be looked at (${own}): the agent tries again.`,
        error,
      )
    }
  }
}

/** Runs work below the store, and names what goes wrong there. Throws ModelError. */
export async function namingStoreErrors<T>(folder: string, work: () => Promise<T>, neededBytes?: number): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw await storeError(error, folder, neededBytes)
  }
}

async function diskFull(folder: string, neededBytes: number | undefined, cause?: unknown): Promise<ModelError> {
  const free = await freeBytes(folder).catch(() => undefined)
  const need = neededBytes === undefined ? 'more space than there is' : formatBytes(neededBytes)
  const left = free === undefined ? 'no space left' : `${formatBytes(free)} free`
  return repairable(
    'DiskFull',
    `The model needs ${need} and the volume of ${folder} has ${left}: make room there or choose another --model-store.`,
    cause,
  )
}

async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize
}

function repairable(
  reason: 'DiskFull' | 'StoreReadOnly' | 'StoreNotWritable' | 'StoreUnusable',
  message: string,
  cause: unknown,
): ModelError {
  return new ModelError('transient', reason, message, { cause, retryAfterMs: localRepairMs })
}
