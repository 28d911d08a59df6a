import { stat } from 'node:fs/promises'
import type { PowerRuleState } from '../../contract/power.ts'
import { hasCode } from '../util/files.ts'
import { powerIntervalsMs } from './intervals.ts'
import { fragmentFile, type SudoLeave, type SudoUser } from './sudoers.ts'

/** Whether our file is there; undefined where this user may not look. Its content only root may read. */
export async function hasRuleFile(user: SudoUser): Promise<boolean | undefined> {
  try {
    await stat(fragmentFile(user))
    return true
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false
    if (hasCode(error, 'EACCES')) return undefined
    throw error
  }
}

/** What counts is what sudo allows, whichever file says so. */
export function ruleState(leave: SudoLeave, hasFile: boolean | undefined): PowerRuleState {
  const { intervalsMs, tooWide } = leave
  if (tooWide !== undefined) return 'different'
  if (intervalsMs.length === powerIntervalsMs.length) return 'installed'
  return intervalsMs.length > 0 || hasFile === true ? 'different' : 'missing'
}
