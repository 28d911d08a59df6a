import type { ProcessMemory } from './applications.ts'
import type { ProcessFacts } from './platform.ts'

/**
 * Columns for `ps -o` that `parsePs` reads back. Where ps was built without an entitlement it names memory and processor time on standard
 * error, leaves them out of every line and ends with 1 (`PS_ENTITLEMENT_ENFORCED`, ps.h of adv_cmds).
 */
const columns = ['pid=', 'pgid=', 'stat=', 'rss=', 'time=', 'lstart=', 'command=']
const usageColumns = ['rss=', 'time=']

export const psColumns = columns.join(',')
export const psColumnsWithoutUsage = columns.filter((column) => !usageColumns.includes(column)).join(',')

/** From what ps writes to standard error. */
export const lacksEntitlement = (text: string): boolean => text.includes('requires entitlement')

const psLine =
  /^ *(\d+) +(\d+) +(\S+) +(?:(\d+) +([\d:.]+) +)?([A-Z]\S+ +[A-Z]\S+ +\d+ +\d\d:\d\d:\d\d +\d{4}) +(.*)$/gm

/**
 * Living processes; zombies, whose command is `<defunct>`, are left out. The start time is five words such as "Sat Nov 21 09:14:03 2026", by
 * the clock of the time zone that ps is given (`lstarted`, print.c of adv_cmds).
 */
export function parsePs(text: string): ProcessFacts[] {
  return [...text.matchAll(psLine)]
    .filter(([, , , state]) => !state?.startsWith('Z'))
    .map(([, pid, groupId, state = '', kibibytes, cpuTime, startTime = '', commandLine = '']) => ({
      pid: Number(pid),
      groupId: Number(groupId),
      startTime: startTime.replaceAll(/\s+/g, ' '),
      commandLine,
      ...(kibibytes !== undefined && { residentBytes: Number(kibibytes) * 1024 }),
      ...(cpuTime !== undefined && { cpuMs: cpuMs(cpuTime) }),
      suspended: state.startsWith('T'),
    }))
}

/** From minutes, seconds and hundredths, such as "123:04.56"; hours, where there are any, stand before them. */
const cpuMs = (time: string): number =>
  Math.round(time.split(':').reduce((sum, part) => sum * 60 + Number(part), 0) * 1000)

/** From `ps -o pid=,rss=,comm=`, where the last is the path of the executable: bytes by process, named by application. */
export const parseResidentMemory = (text: string): ProcessMemory[] =>
  [...text.matchAll(/^ *(\d+) +(\d+) +(.+)$/gm)].map(([, pid, kibibytes, executable = '']) => ({
    pid: Number(pid),
    name: applicationName(executable),
    bytes: Number(kibibytes) * 1024,
  }))

/** Helpers live in bundles of their own inside the application's, so the outermost one names it. */
function applicationName(executable: string): string {
  const bundle = /\/([^/]+)\.app\//.exec(executable)?.[1]
  return bundle ?? executable.trim().split('/').at(-1) ?? executable
}

/** From `ps -E -o command=`, which prints the environment after the arguments; values with spaces are cut short. */
export const parseVariable = (text: string, name: string): string | undefined =>
  new RegExp(`(?:^|\\s)${name}=(\\S*)`).exec(text)?.[1]

/** Columns for `ps -o` that `loginSessionIn` reads back; `uid` is the effective one. */
export const sessionColumns = 'uid=,pid=,lstart=,command='

/** Where ps may not read the arguments of a process it prints the name alone, in brackets. */
const loginWindow =
  /^ *(-?\d+) +(\d+) +(\S+ +\S+ +\S+ +\S+ +\d{4}) +(?:\S*\/loginwindow\.app\/Contents\/MacOS\/loginwindow(?: .*)?|\(loginwindow\))$/gm

/**
 * Each login at the screen has a `loginwindow` process of its own, which ends with the logout. Its real user is root, which starts it, and its
 * effective one, whom ps shows beside it, the one who is logged in.
 */
export function loginSessionIn(text: string, user: number | undefined): string | undefined {
  const own = [...text.matchAll(loginWindow)].find(([, owner]) => Number(owner) === user)
  return own && `${own[2]} ${own[3]?.replaceAll(/\s+/g, ' ')}`
}
