import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'

/** USER_HZ, which Linux keeps at 100 on every machine whatever its kernel's own rate is. */
const ticksPerSecond = 100

/** CPU time of all threads of a process so far, in seconds. */
function cpuSeconds(pid: number): number {
  const fields = statFields(pid)
  if (!fields) throw new Error(`Process ${pid} is gone.`)
  const [userTicks, systemTicks] = [Number(fields[11]), Number(fields[12])]
  return (userTicks + systemTicks) / ticksPerSecond
}

/** The same in nanoseconds of the scheduler, of the threads that live: for differences of less than a tick. */
export function threadSeconds(pid: number): number {
  const tasks = readdirSync(`/proc/${pid}/task`)
  const nanoseconds = tasks.map((task) => Number(read(`/proc/${pid}/task/${task}/schedstat`)?.split(' ')[0] ?? 0))
  return nanoseconds.reduce((sum, one) => sum + one, 0) / 1e9
}

/**
 * CPU time that a process takes from now on, in percent of one core: one figure for each part of the time. `secondsOf`: {@link threadSeconds}
 * for a process whose share of such a part is less than a tick.
 */
export async function cpuShares(pid: number, seconds: number, parts = 1, secondsOf = cpuSeconds): Promise<number[]> {
  const shares: number[] = []
  while (shares.length < parts) {
    const [cpuBefore, startedAt] = [secondsOf(pid), performance.now()]
    await delay((seconds / parts) * 1_000)
    shares.push(((secondsOf(pid) - cpuBefore) * 100_000) / (performance.now() - startedAt))
  }
  return shares
}

export interface Memory {
  readonly residentMiB: number
  /** Memory shared with other processes is counted in parts. */
  readonly proportionalMiB: number
}

export function memoryOf(pid: number): Memory {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
  const field = (name: string): number => Number(new RegExp(`^${name}: +(\\d+) kB`, 'm').exec(text)?.[1]) / 1_024
  return { residentMiB: field('Rss'), proportionalMiB: field('Pss') }
}

/** The most memory it ever had, in MiB. */
export function peakMemoryOf(pid: number): number {
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_024
}

/** A process that has ended and waits to be reaped counts as gone. */
export function isGone(pid: number): boolean {
  const state = statFields(pid)?.[0]
  return state === undefined || state === 'Z' || state === 'X'
}

/** Children of the main thread, which is the one that starts processes in Node.js. */
export function childrenOf(pid: number): number[] {
  const text = read(`/proc/${pid}/task/${pid}/children`) ?? ''
  return text.split(' ').filter(Boolean).map(Number)
}

export const commandLineOf = (pid: number): string[] => (read(`/proc/${pid}/cmdline`) ?? '').split('\0')

/** From the third field on: the second, the name, may hold anything. */
function statFields(pid: number): string[] | undefined {
  const text = read(`/proc/${pid}/stat`)
  return text?.slice(text.lastIndexOf(')') + 2).split(' ')
}

/** Undefined where the process is gone. */
function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ESRCH'))
      return undefined
    throw error
  }
}
