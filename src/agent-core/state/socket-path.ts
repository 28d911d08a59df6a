import { createHash } from 'node:crypto'
import { lstat, mkdir } from 'node:fs/promises'
import path from 'node:path'
import { ensurePrivateFolder } from './state-folder.ts'

/** The kernel's limit is 104 bytes on macOS and 108 on Linux, terminator included. */
export const maxSocketPathBytes = 100

/**
 * Where the agent of this state folder listens, the same for the agent and for every client: inside the folder, or,
 * where that path is too long for a socket, in a folder of its own under the temporary one.
 */
export function socketPathFor(stateDir: string, temporaryDir: string): string {
  const inside = path.join(path.resolve(stateDir), 'agent.sock')
  if (Buffer.byteLength(inside) <= maxSocketPathBytes) return inside
  const digest = createHash('sha256').update(path.resolve(stateDir)).digest('hex').slice(0, 16)
  const outside = path.join(temporaryDir, `metalbar-${digest}`, 'agent.sock')
  return Buffer.byteLength(outside) <= maxSocketPathBytes ? outside : `/tmp/metalbar-${digest}/agent.sock`
}

/**
 * Makes the socket's folder private; throws where another user made it first, as any user can in a temporary folder. Below the state folder
 * a link may be the owner's own wish; below the temporary folder it is not.
 */
export async function ensureSocketFolder(socketPath: string, stateDir: string): Promise<void> {
  const folder = path.dirname(socketPath)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if (folder !== path.resolve(stateDir) && (await lstat(folder)).isSymbolicLink()) {
    throw new Error(`${folder} is a symbolic link, which somebody else may point elsewhere`)
  }
  await ensurePrivateFolder(folder)
}
