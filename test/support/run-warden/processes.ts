import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

export interface SeenProcess {
  readonly pid: number
  readonly parent: number
  /** Another process may have the same number later. */
  readonly startedAt: string
}

/** Of the whole machine. */
export const allProcesses = (): readonly SeenProcess[] => (process.platform === 'linux' ? byProc() : byPs())

const byProc = (): SeenProcess[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        // After the name, which may hold anything: state, parent, … and as the twentieth the start.
        const fields = readFileSync(`/proc/${name}/stat`, 'utf8')
          .replace(/^.*\) /s, '')
          .split(' ')
        const [state, parent = '', startedAt = ''] = [fields[0], fields[1], fields[19]]
        return state === 'Z' ? [] : [{ pid: Number(name), parent: Number(parent), startedAt }]
      } catch {
        // It has ended meanwhile.
        return []
      }
    })

const byPs = (): SeenProcess[] =>
  execFileSync('/bin/ps', ['-axo', 'pid=,ppid=,stat=,lstart='], {
    encoding: 'utf8',
    env: { LC_ALL: 'C', TZ: 'UTC' },
  })
    .split('\n')
    .flatMap((line) => {
      const [, pid, parent, state = '', startedAt = ''] = /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(.*)$/.exec(line) ?? []
      return pid === undefined || state.startsWith('Z') ? [] : [{ pid: Number(pid), parent: Number(parent), startedAt }]
    })
