import { hasCode } from './files.ts'

/**
 * False if the group has no process left, or none that we may signal: macOS answers EPERM if only zombies are left.
 * `kill` is given by tests.
 */
export function signalGroup(
  groupId: number,
  signal: NodeJS.Signals,
  kill: (pid: number, signal: NodeJS.Signals) => boolean = (pid, wanted) => process.kill(pid, wanted),
): boolean {
  try {
    return kill(-groupId, signal)
  } catch (error) {
    if (hasCode(error, 'ESRCH') || hasCode(error, 'EPERM')) return false
    throw error
  }
}
