import { userInfo } from 'node:os'
import { sentence } from '../../../contract/clean-text.ts'
import type { PowerRuleView } from '../../../contract/power.ts'
import type { PowerCommands } from '../../power/powermetrics.ts'
import { fragmentFile, fragmentFor, hasRuleFile, leaveOf, ruleState } from '../../power/sudoers.ts'
import { ProgramError } from '../../util/ask-program.ts'

export interface PowerRuleSources {
  readonly platform: 'darwin' | 'linux'
  /** Instead of those of macOS. */
  readonly commands?: PowerCommands | undefined
}

const maxBytes = 1_000

/** The rule for the user whose agent this is, and how sudo stands to it. */
export async function powerRule({ platform, commands }: PowerRuleSources): Promise<PowerRuleView> {
  const { username: name, uid: id } = userInfo()
  const user = { name, id }
  const facts = { file: fragmentFile(user), rule: fragmentFor(user) }
  if (platform !== 'darwin') return { ...facts, state: 'notHere' }
  try {
    const [leave = { intervalsMs: [] }, hasFile] = await Promise.all([leaveOf(user, commands), hasRuleFile(user)])
    const { tooWide } = leave
    return {
      ...facts,
      state: ruleState(leave, hasFile),
      ...(tooWide !== undefined && { message: sentence(tooWide, maxBytes) }),
    }
  } catch (error) {
    if (!(error instanceof ProgramError)) throw error
    return { ...facts, state: 'unknown', message: sentence(error.message, maxBytes) }
  }
}
