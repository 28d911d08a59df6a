import { cpSync, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { ownBundle } from './bundle.ts'

/** In place of /Applications. */
const folder = process.env['ELECTRON_STAND_IN_APPLICATIONS'] ?? '/Applications'
/** The app there, if there is one, runs. */
const isOtherRunning = process.env['ELECTRON_STAND_IN_OTHER_RUNS'] !== undefined

export interface MoveOptions {
  readonly conflictHandler?: (type: 'exists' | 'existsAndRunning') => unknown
}

export const isInApplicationsFolder = (): boolean => path.dirname(ownBundle).split(path.sep).includes('Applications')

/** As Electron does it: nothing is asked but the handler, the app of before goes to the Trash, and this one quits to be opened from there. */
export function moveToApplicationsFolder({ conflictHandler }: MoveOptions): 'stays' | 'quits' | 'is there' {
  if (isInApplicationsFolder()) return 'is there'
  const target = path.join(folder, path.basename(ownBundle))
  const continues = (type: 'exists' | 'existsAndRunning') => {
    const answer = conflictHandler?.(type)
    if (answer !== undefined && typeof answer !== 'boolean') throw new Error('Invalid conflict handler return type.')
    return answer !== false
  }
  if (existsSync(target)) {
    if (isOtherRunning) return continues('existsAndRunning') ? 'quits' : 'stays'
    if (!continues('exists')) return 'stays'
    mkdirSync(path.join(folder, '.Trash'), { recursive: true })
    renameSync(target, path.join(folder, '.Trash', path.basename(target)))
  }
  try {
    cpSync(ownBundle, target, { recursive: true })
  } catch {
    throw new Error('Failed to copy current bundle to the applications folder')
  }
  // What is on a disk image, or where macOS put it for safety, stays.
  if (!ownBundle.includes('/AppTranslocation/')) rmSync(ownBundle, { recursive: true })
  return 'quits'
}
