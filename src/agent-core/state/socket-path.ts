import { createHash } from 'node:crypto'
import type { Stats } from 'node:fs'
import { lstat, mkdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { hasCode } from '../util/files.ts'
import { ensurePrivateFolder } from './state-folder.ts'

/** The kernel's limit is 104 bytes on macOS and 108 on Linux, terminator included. */
export const maxSocketPathBytes = 100

/**
 * Where the agent of this state folder listens, or its gateway: the same for the agent and for every client: inside the folder, or,
 * where that path is too long for a socket, in a folder of its own under the temporary one.
 */
export function socketPathFor(stateDir: string, temporaryDir: string, name = 'agent.sock'): string {
  const inside = path.join(path.resolve(stateDir), name)
  if (Buffer.byteLength(inside) <= maxSocketPathBytes) return inside
  const digest = createHash('sha256').update(path.resolve(stateDir)).digest('hex').slice(0, 16)
  const outside = path.join(temporaryDir, `metalbar-${digest}`, name)
  return Buffer.byteLength(outside) <= maxSocketPathBytes ? outside : `/tmp/metalbar-${digest}/${name}`
}

/**
 * Makes the socket's folder private; throws where another user made it first, as any user can in a temporary folder. Below the state folder
 * a link may be the owner's own wish; below the temporary folder it is not.
 */
export async function ensureSocketFolder(socketPath: string, stateDir: string): Promise<void> {
  const folder = path.dirname(socketPath)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if (folder !== path.resolve(stateDir)) {
    const found = await lstat(folder)
    if (found.isSymbolicLink()) throw new Error(`${folder} is a symbolic link, which another user may point elsewhere`)
    // The entry itself is looked at: another user's could become a link before the next look.
    if (found.uid !== process.geteuid?.()) throw new Error(`${folder} belongs to user ${found.uid}`)
  }
  await ensurePrivateFolder(folder)
}

/** Who listens there may be another user: half a sentence. */
export class StrangeSocketError extends Error {
  override readonly name = 'StrangeSocketError'
}

/**
 * Throws StrangeSocketError where another user may have made the socket or its folder, as any user can in a temporary folder: nothing is to be
 * sent to who listens there, nor believed. Root may talk to the agent of the state folder's owner.
 */
export async function requireOwnSocket(socketPath: string, stateDir: string): Promise<void> {
  const folder = path.dirname(socketPath)
  const user = process.geteuid?.()
  const owners = [user, ...(user === 0 ? [(await ifThere(stat(stateDir)))?.uid] : [])]
  const isInside = folder === path.resolve(stateDir)
  const wrong =
    wrongWith(folder, await ifThere(isInside ? stat(folder) : lstat(folder)), owners) ??
    wrongWith(socketPath, await ifThere(lstat(socketPath)), owners)
  if (wrong === undefined) return
  throw new StrangeSocketError(
    `${wrong}, so another user may be listening there. Remove ${isInside ? socketPath : folder}, or name another folder with --state-dir`,
  )
}

function wrongWith(
  name: string,
  found: Stats | undefined,
  owners: readonly (number | undefined)[],
): string | undefined {
  // What is not there is nobody's.
  if (!found) return undefined
  if (found.isSymbolicLink()) return `${name} is a symbolic link`
  if (!owners.includes(found.uid)) return `${name} belongs to user ${found.uid}`
  const mode = (found.mode & 0o777).toString(8).padStart(4, '0')
  return (found.mode & 0o022) === 0 ? undefined : `${name} may be written by others (mode ${mode})`
}

async function ifThere(asked: Promise<Stats>): Promise<Stats | undefined> {
  try {
    return await asked
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
}
