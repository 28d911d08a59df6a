import { userInfo } from 'node:os'
import { askProgram } from '../util/ask-program.ts'
import { macCommands } from './powermetrics.ts'
import { leaveIn, type SudoLeave, type SudoUser } from './sudoers.ts'

/** As long as a directory server may take that sudo asks about its user. */
const askLimitMs = 30_000
const env = { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', LC_ALL: 'C' }

/**
 * Which intervals this user may measure, as sudo tells it without a password; undefined where it does not tell what another user may do.
 * Throws ProgramError.
 */
export async function leaveOf({ name, id }: SudoUser, { sudo } = macCommands): Promise<SudoLeave | undefined> {
  const isOther = userInfo().uid !== id
  const args = ['-n', '-l', ...(isOther ? ['-U', name] : [])]
  const { exitCode, stdout } = await askProgram({ command: sudo, args, env, timeLimitMs: askLimitMs })
  if (exitCode === 0) return leaveIn(stdout)
  return isOther && !stdout.includes('is not allowed to run sudo') ? undefined : { intervalsMs: [] }
}
