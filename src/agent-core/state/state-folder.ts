import { chmod, mkdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { messageOf } from '../util/message-of.ts'

interface StateFolder {
  readonly dir: string
  readonly lockFile: string
  readonly nodeFile: string
}

export type StateFolderResult =
  { readonly ok: true; readonly folder: StateFolder } | { readonly ok: false; readonly message: string }

/** Where an agent keeps what outlives it, unless `--state-dir` says otherwise. */
export function defaultStateDir(platform: NodeJS.Platform, env: NodeJS.ProcessEnv, home: string): string {
  if (platform === 'darwin') return path.join(home, 'Library', 'Application Support', 'Metalbar')
  const xdg = env['XDG_STATE_HOME']
  // The XDG specification has relative paths ignored.
  const base = xdg !== undefined && path.isAbsolute(xdg) ? xdg : path.join(home, '.local', 'state')
  return path.join(base, 'metalbar')
}

export const lockFileIn = (stateDir: string): string => path.join(stateDir, 'agent.lock')

/** Creates the folder if need be; only its owner may look into it. */
export async function openStateFolder(dir: string): Promise<StateFolderResult> {
  try {
    await ensurePrivateFolder(dir)
  } catch (error) {
    const why = messageOf(error)
    return { ok: false, message: `The state folder ${dir} cannot be used: ${why}; choose another with --state-dir.` }
  }
  return { ok: true, folder: { dir, lockFile: lockFileIn(dir), nodeFile: path.join(dir, 'node.json') } }
}

/** Makes `dir` a folder of this user with mode 0700; throws where it belongs to another user or is not a folder. */
export async function ensurePrivateFolder(dir: string): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const facts = await stat(dir)
  // Effective: root may act for the user whose folder it is.
  const user = process.geteuid?.()
  if (user !== undefined && facts.uid !== user) throw new Error('it belongs to another user')
  if ((facts.mode & 0o777) !== 0o700) await chmod(dir, 0o700)
}
