import { z } from 'zod'
import type { Firewall, KernelPressure } from './platform.ts'
import type { PowerSupply } from './power-supply.ts'
import { parseJson } from '../util/files.ts'

/**
 * What a new process can have without anything being compressed or written to swap. xnu counts speculative pages among the file-backed
 * ones (`vm_page_speculate`, osfmk/vm/vm_resident.c), and `vm_stat` leaves them out of the free ones; purgeable pages are anonymous.
 */
const availablePages = ['Pages free', 'File-backed pages', 'Pages purgeable']

/** For a macOS that does not say which pages are backed by files: an upper bound, since some of these would have to be compressed first. */
const looseAvailablePages = ['Pages free', 'Pages inactive', 'Pages speculative', 'Pages purgeable']
const indispensablePages = ['Pages free', 'Pages inactive']
const wiredPages = 'Pages wired down'

/** Bytes by the name of their pages; undefined where a number is written in another way than expected. */
export interface VmStat {
  readonly bytes: ReadonlyMap<string, number | undefined>
  /** The output was not cut short. */
  readonly isWhole: boolean
}

/** From `vm_stat`; undefined where it does not read like it. */
export function parsePages(text: string): VmStat | undefined {
  const pageSize = Number(/page size of (\d+) bytes/.exec(text)?.[1])
  if (Number.isNaN(pageSize)) return undefined
  const lines = text.trimEnd().split('\n').slice(1)
  const bytes = lines.map((line) => {
    const [, name, count] = /^"?([^":]+)"?:\s+(\d+)\.$/.exec(line) ?? []
    return [name ?? line.split(':', 1)[0] ?? '', count === undefined ? undefined : Number(count) * pageSize] as const
  })
  return { bytes: new Map(bytes), isWhole: lines.at(-1)?.endsWith('.') === true }
}

/**
 * Bytes, from `vm_stat`. Undefined where it does not read like it, was cut short or writes a number in another way than
 * expected: a figure that is too low would look like a Mac that is out of memory.
 */
export function parseVmStat(text: string): { availableBytes: number; wiredBytes?: number } | undefined {
  const { bytes, isWhole } = parsePages(text) ?? { bytes: new Map<string, undefined>(), isWhole: false }
  const available = bytes.has('File-backed pages') ? availablePages : looseAvailablePages
  const wanted = [...available, ...indispensablePages, wiredPages].filter((name) => bytes.has(name))
  if (!isWhole || !wanted.every((name) => bytes.get(name) !== undefined)) return undefined
  if (!indispensablePages.every((name) => bytes.has(name))) return undefined
  const wiredBytes = bytes.get(wiredPages)
  return {
    availableBytes: available.reduce((sum, name) => sum + (bytes.get(name) ?? 0), 0),
    ...(wiredBytes !== undefined && { wiredBytes }),
  }
}

/** Values of `kern.memorystatus_vm_pressure_level`: the numbers of the dispatch source for memory pressure. */
const pressureLevels = new Map<string, KernelPressure>([
  ['1', 'normal'],
  ['2', 'warning'],
  ['4', 'critical'],
])

export const parsePressureLevel = (text: string): KernelPressure | undefined => pressureLevels.get(text.trim())

/**
 * Bytes by pid, from `footprint --noCategories -f bytes`: every process opens with its name, pid and a rounded figure;
 * the kernel's own count of what it is charged for stands below it. A pid that is gone is looked for as part of a name, so that a process
 * that nobody asked about may be among the answers.
 */
export function parseFootprints(text: string, asked: readonly number[]): Map<number, number> {
  const processes = text.split(/^.*\[(?=\d+\]: \d+-bit)/m).slice(1)
  return new Map(
    processes.flatMap((block) => {
      const summed = /Footprint: (\d+) B \(/.exec(block)?.[1]
      const bytes = /^[ \t]*phys_footprint: (\d+) B$/m.exec(block)?.[1] ?? summed
      const pid = Number.parseInt(block)
      return bytes === undefined || !asked.includes(pid) ? [] : [[pid, Number(bytes)] as const]
    }),
  )
}

/** From `sysctl -n`: undefined where the answer is not a positive whole number. */
export function parsePositiveInteger(text: string): number | undefined {
  return z.coerce.number().int().positive().safeParse(text.trim()).data
}

/** From `netstat -anp tcp`: how many connections have `port` as their own end and are established. */
export const countEstablished = (text: string, port: number): number =>
  [...text.matchAll(/^tcp\S* +\d+ +\d+ +\S+\.(\d+) +\S+ +ESTABLISHED\b/gm)].filter(([, own]) => Number(own) === port)
    .length

/** system_profiler names support under one of these keys, depending on the release of macOS, as public programs read them (2026-11). */
const metalKeys = ['spdisplays_mtlgpufamilysupport', 'spdisplays_metalfamily', 'spdisplays_metal']

const displaysReport = z.object({ SPDisplaysDataType: z.array(z.record(z.string(), z.unknown())) })

/** From `system_profiler SPDisplaysDataType -json`: does any graphics device support Metal? Undefined where it does not say. */
export function parseDisplays(text: string): boolean | undefined {
  const report = displaysReport.safeParse(parseJson(text))
  if (!report.success) return undefined
  return report.data.SPDisplaysDataType.some((device) =>
    metalKeys.some((key) => {
      const support = device[key]
      return typeof support === 'string' && !/not_?supported|unsupported/i.test(support)
    }),
  )
}

const firewallStates = new Map<string | undefined, Firewall['state']>([
  ['0', 'off'],
  ['1', 'byProgram'],
  ['2', 'blocksAll'],
])

/** From `socketfilterfw --getglobalstate`, such as `Firewall is enabled. (State = 1)`. */
export const parseFirewallState = (text: string): Firewall['state'] | undefined =>
  firewallStates.get(/\(State = (\d)\)/.exec(text)?.[1])

/** From `socketfilterfw --getblockall`: `Firewall has block all state set to enabled.`, before macOS 15 `Block all ENABLED!`. */
export const blocksAll = (text: string): boolean => /\benabled\b/i.test(text)

/** From `socketfilterfw --listapps`: a numbered path, and in its line or the next one what is done with its connections. */
export function parseAllowedPrograms(text: string): ReadonlySet<string> {
  const allowed = new Set<string>()
  let program = ''
  for (const line of text.split('\n').map((one) => one.trim())) {
    const verdict = ['( Allow incoming connections )', '( Block incoming connections )'].find((end) =>
      line.endsWith(end),
    )
    const rest = line.slice(0, line.length - (verdict?.length ?? 0)).trim()
    if (rest !== '') program = /^\d+ ?:/.test(rest) ? rest.slice(rest.indexOf(':') + 1).trim() : ''
    if (verdict?.includes('Allow') === true && program !== '') allowed.add(program)
  }
  return allowed
}

/** From `pmset -g batt`: a UPS in use is a battery too. Undefined where it does not say. */
export function parseBattery(text: string): Pick<PowerSupply, 'source' | 'charge'> | undefined {
  const source = /^Now drawing from '(AC|Battery|UPS) Power'/m.exec(text)?.[1]
  if (source === undefined) return undefined
  const percent = Number(/\t(\d{1,3})%;/.exec(text)?.[1])
  return { source: source === 'AC' ? 'mains' : 'battery', ...(percent <= 100 && { charge: percent / 100 }) }
}

/** From `pmset -g`: newer systems have `powermode`, of which 1 is low, in place of `lowpowermode`. */
export const parseLowPowerMode = (text: string): boolean => /^ *(lowpowermode|powermode) +1\b/m.test(text)

/** From `pmset -g`: minutes without use after which the system goes to sleep by itself, 0 = never. Undefined where it does not say. */
export function parseSleepMinutes(text: string): number | undefined {
  const minutes = /^ *sleep +(\d{1,6})\b/m.exec(text)?.[1]
  return minutes === undefined ? undefined : Number(minutes)
}
