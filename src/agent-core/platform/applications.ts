import type { BigApplication } from './platform.ts'

export interface ProcessMemory {
  readonly pid: number
  /** Name of the application that the process belongs to. */
  readonly name: string
  readonly bytes: number
}

/** Processes of one name are one application; the biggest applications first. */
export function biggestApplications(processes: readonly ProcessMemory[], limit: number): BigApplication[] {
  return Object.entries(Object.groupBy(processes, ({ name }) => name))
    .flatMap(([name, members = []]) => {
      const [biggest] = members.toSorted((a, b) => b.bytes - a.bytes)
      return biggest ? [{ name, bytes: members.reduce((sum, { bytes }) => sum + bytes, 0), pid: biggest.pid }] : []
    })
    .filter(({ bytes }) => bytes > 0)
    .toSorted((a, b) => b.bytes - a.bytes)
    .slice(0, limit)
}
