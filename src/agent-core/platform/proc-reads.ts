import { readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { hasCode } from '../util/files.ts'
import { PlatformError } from './platform.ts'

export const allPids = (): number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid > 0)

/** For files that the kernel may take long to make: a process that is busy with its own memory holds up every reader of its figures. */
export const readProc = (path: string): Promise<string | undefined> => unlessGone(readFile(path, 'utf8'))

/** For everything else: no disk is behind it, and the round trips through the thread pool cost many times as much. */
export const readNow = (path: string): string | undefined => unlessGoneNow(() => readFileSync(path, 'utf8'))

/** Kernels are built without pressure stall information, or refuse it when it is switched off at boot. */
export function readIfOffered(path: string): string | undefined {
  try {
    return readNow(path)
  } catch (error) {
    if (error instanceof PlatformError && hasCode(error.cause, 'EOPNOTSUPP')) return undefined
    throw error
  }
}

const goneCodes = new Set<unknown>(['ENOENT', 'ESRCH', 'EACCES', 'EPERM'])

/** Processes come and go while we read, and other users' are closed to us: both are answers, not failures. */
export async function unlessGone<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading
  } catch (error) {
    if (isNotThere(error)) return undefined
    throw unreadable(error)
  }
}

/** As {@link unlessGone}. */
export function unlessGoneNow<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (isNotThere(error)) return undefined
    throw unreadable(error)
  }
}

const isNotThere = (error: unknown): boolean => error instanceof Error && 'code' in error && goneCodes.has(error.code)

const unreadable = (error: unknown): PlatformError =>
  new PlatformError(`The process table could not be read: ${String(error)}`, { cause: error })
