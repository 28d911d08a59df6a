import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import path from 'node:path'
import { app } from 'electron'
import type { Misplaced } from '../../contract/app-state.ts'
import type { CommandResult } from '../../contract/commands.ts'
import { sharedWords } from '../../contract/words.ts'
import { hasCode } from '../../agent-core/util/files.ts'
import type { Question } from '../lifecycle/questions.ts'
import { machineWords, questionWords } from '../words.ts'

export interface Place {
  /** The folder Metalbar.app. */
  readonly bundle: string
  readonly homeDir: string
  readonly isInApplications: boolean
  /** The disk that it is on takes no writes. */
  readonly isReadOnly: boolean
}

/** A folder of the person's own choice is one where it stays. */
export function misplacedAs({ bundle, homeDir, isInApplications, isReadOnly }: Place): Misplaced | undefined {
  if (bundle.includes('/AppTranslocation/')) return 'translocated'
  if (isInApplications) return undefined
  if (isReadOnly && bundle.startsWith('/Volumes/')) return 'diskImage'
  return bundle.startsWith(`${path.join(homeDir, 'Downloads')}/`) ? 'downloads' : undefined
}

export const ownBundle = (): string => path.resolve(process.resourcesPath, '../..')

/** Where this app runs although it cannot stay there; undefined if it may stay, or runs from its sources. */
export async function placeOfApp(homeDir: string): Promise<Misplaced | undefined> {
  // There on macOS alone.
  if (!app.isPackaged || !('isInApplicationsFolder' in app)) return undefined
  const bundle = ownBundle()
  const isReadOnly = await access(path.dirname(bundle), constants.W_OK).then(
    () => false,
    (error: unknown) => hasCode(error, 'EROFS'),
  )
  return misplacedAs({ bundle, homeDir, isInApplications: app.isInApplicationsFolder(), isReadOnly })
}

export const moveOffer = (misplaced: Misplaced): Question => ({
  message: sharedWords.misplaced[misplaced],
  ...questionWords.move,
})

export interface MoveOptions {
  readonly confirm: (question: Question) => Promise<boolean>
  /** The app is about to end and to be opened again, or does not after all. */
  readonly onMoving: (isMoving: boolean) => void
}

/** Undefined where the person does not want it, or it is done and the app ends. Throws what macOS says. */
export async function moveToApplications({ confirm, onMoving }: MoveOptions): Promise<CommandResult | undefined> {
  // Where macOS asks for a password it replaces what is there without asking the handler.
  const isThere = await access(path.join('/Applications', path.basename(ownBundle()))).then(
    () => true,
    () => false,
  )
  if (isThere && !(await confirm(questionWords.replace))) return undefined
  const first = move(isThere, onMoving)
  if (first === 'moved') return undefined
  if (first === 'exists' && !(await confirm(questionWords.replace))) return undefined
  const last = first === 'exists' ? move(true, onMoving) : first
  if (last === 'moved') return undefined
  const { failed, isRunning, refused } = machineWords.move
  return { outcome: 'failed', message: failed(last === 'existsAndRunning' ? isRunning : refused) }
}

type Moved = 'moved' | 'refused' | 'exists' | 'existsAndRunning'

/** Electron asks its handler at once, with no time for a question. */
function move(mayReplace: boolean, onMoving: MoveOptions['onMoving']): Moved {
  let met: Moved = 'refused'
  let isMoved = false
  onMoving(true)
  try {
    isMoved = app.moveToApplicationsFolder({
      conflictHandler: (type) => {
        met = type
        return type === 'exists' && mayReplace
      },
    })
  } finally {
    if (!isMoved) onMoving(false)
  }
  return isMoved ? 'moved' : met
}
