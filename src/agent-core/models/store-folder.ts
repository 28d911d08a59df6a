import { chmod, stat } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { dirname } from 'node:path'
import type { Stats } from 'node:fs'
import { shellCommand } from '../../contract/shell.ts'
import { localRepairMs, ModelError } from './errors.ts'
import { statIfThere } from './store-paths.ts'

/** What is found out about a store's folder and those above it. */
export interface FolderJudgement {
  /** Nothing is written there, nor served from there. */
  readonly problem?: ModelError
  /** What a person should know, one sentence each. */
  readonly warnings: readonly string[]
}

/**
 * Judges whether other users could put files into the model store: a store of this user is closed to them, one of another user is refused.
 * Root is trusted, and its store left as it is.
 */
export async function judgeStoreFolder(
  directory: string,
  { uid, username }: { readonly uid: number; readonly username: string } = userInfo(),
): Promise<FolderJudgement> {
  const found = await statIfThere(directory)
  if (found === undefined) return { warnings: [] }
  const isOurs = found.uid === uid || uid === -1
  if (!isOurs && found.uid !== 0) return { problem: foreign(directory, found, username), warnings: [] }
  const warnings: string[] = []
  if ((found.mode & 0o022) !== 0) {
    // Some volumes keep no modes.
    const isMended =
      isOurs &&
      (await chmod(directory, found.mode & 0o755).then(
        () => true,
        () => false,
      ))
    const outcome = isMended
      ? '; now this user alone may'
      : isOurs
        ? ': choose a --model-store on a volume that keeps permissions'
        : `: end that with "${shellCommand(['sudo', 'chmod', 'go-w', directory])}"`
    warnings.push(
      `Others ${isMended ? 'could' : 'can'} write to the model store ${directory} (mode ${octal(found)})${outcome}.`,
    )
  }
  for (let above = dirname(directory), below = directory; above !== below; [above, below] = [dirname(above), above]) {
    const state = await stat(above)
    const isOthers = state.uid !== uid && state.uid !== 0
    const isOpen = (state.mode & 0o022) !== 0 && (state.mode & 0o1000) === 0
    if (isOthers || isOpen) {
      warnings.push(
        `Others could replace the model store ${directory}, since ${above} ${isOthers ? `belongs to user ${state.uid}` : `may be written by them (mode ${octal(state)})`}: choose a --model-store in a folder of your own.`,
      )
    }
  }
  return { warnings }
}

/** One sentence where a restart of the machine may empty the store. */
export const temporaryNote = (directory: string): string | undefined =>
  /^(?:\/private)?\/(?:var\/)?tmp\//.test(directory)
    ? `The model store ${directory} is in a folder for temporary files, which a restart may empty: choose another --model-store.`
    : undefined

const octal = ({ mode }: Stats): string => (mode & 0o7777).toString(8).padStart(4, '0')

const foreign = (directory: string, found: Stats, username: string): ModelError =>
  new ModelError(
    'transient',
    'StoreNotOurs',
    `The model store ${directory} belongs to user ${found.uid} (mode ${octal(found)}), who could put anything there: give it to this user with "${shellCommand(['sudo', 'chown', '-R', username, directory])}", or choose another --model-store.`,
    { retryAfterMs: localRepairMs },
  )
