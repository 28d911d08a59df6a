import { z } from 'zod'
import type { ProcessMemory } from './applications.ts'
import type { KernelPressure, PortHolder, ProcessFacts, Workplace } from './platform.ts'
import { parseJson } from '../support/files.ts'

/** Every page that can be handed out without writing to swap; versions of macOS that lack one have no such pages. */
const availablePages = ['Pages free', 'Pages inactive', 'Pages speculative', 'Pages purgeable']
const indispensablePages = ['Pages free', 'Pages inactive']
const wiredPages = 'Pages wired down'

/**
 * Bytes, from `vm_stat`. Undefined where it does not read like it, was cut short or writes a number in another way than
 * expected: a figure that is too low would look like a Mac that is out of memory.
 */
export function parseVmStat(text: string): { availableBytes: number; wiredBytes?: number } | undefined {
  const pageSize = Number(/page size of (\d+) bytes/.exec(text)?.[1])
  const lines = text.trimEnd().split('\n').slice(1)
  const pages = new Map(
    lines.map((line) => {
      const [, name, count] = /^"?([^":]+)"?:\s+(\d+)\.$/.exec(line) ?? []
      return [name ?? line.split(':', 1)[0], count === undefined ? undefined : Number(count)]
    }),
  )
  const wanted = [...availablePages, wiredPages].filter((name) => pages.has(name))
  const isWhole = lines.at(-1)?.endsWith('.') === true && wanted.every((name) => pages.get(name) !== undefined)
  if (Number.isNaN(pageSize) || !isWhole || !indispensablePages.every((name) => pages.has(name))) return undefined
  const wired = pages.get(wiredPages)
  return {
    availableBytes: availablePages.reduce((sum, name) => sum + (pages.get(name) ?? 0), 0) * pageSize,
    ...(wired !== undefined && { wiredBytes: wired * pageSize }),
  }
}

/** Of `kern.memorystatus_vm_pressure_level`: the numbers of the dispatch source for memory pressure. */
const pressureLevels = new Map<string, KernelPressure>([
  ['1', 'normal'],
  ['2', 'warning'],
  ['4', 'critical'],
])

export const parsePressureLevel = (text: string): KernelPressure | undefined => pressureLevels.get(text.trim())

/** From `memory_pressure -Q`, as a fraction; undefined where it is not a whole percentage. */
export function parseFreeFraction(text: string): number | undefined {
  const percent = Number(/^System-wide memory free percentage: (\d{1,3})%$/m.exec(text)?.[1])
  return percent <= 100 ? percent / 100 : undefined
}

/**
 * Bytes by pid, from `footprint --noCategories -f bytes`: every process opens with its name, pid and a rounded figure;
 * the kernel's own count of what it is charged for stands below it.
 */
export function parseFootprints(text: string): Map<number, number> {
  const processes = text.split(/^.*\[(?=\d+\]: \d+-bit)/m).slice(1)
  return new Map(
    processes.flatMap((block) => {
      const summed = /Footprint: (\d+) B \(/.exec(block)?.[1]
      const bytes = /^\s*phys_footprint: (\d+) B$/m.exec(block)?.[1] ?? summed
      return bytes === undefined ? [] : [[Number.parseInt(block), Number(bytes)] as const]
    }),
  )
}

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

/** From `sysctl -n`: undefined where the answer is not a positive whole number. */
export function parsePositiveInteger(text: string): number | undefined {
  return z.coerce.number().int().positive().safeParse(text.trim()).data
}

/** Columns for `ps -o` that `parsePs` reads back. */
export const psColumns = 'pid=,pgid=,stat=,rss=,time=,lstart=,command='

const psLine = /^ *(\d+) +(\d+) +(\S+) +(\d+) +([\d:.]+) +(\S+ +\S+ +\S+ +\S+ +\d{4}) +(.*)$/gm

/** Living processes; zombies are left out. The start time is five words such as "Sat Nov 21 09:14:03 2026". */
export function parsePs(text: string): ProcessFacts[] {
  return [...text.matchAll(psLine)]
    .filter(([, , , state]) => !state?.startsWith('Z'))
    .map(([, pid, groupId, state = '', kibibytes, cpuTime = '', startTime = '', commandLine = '']) => ({
      pid: Number(pid),
      groupId: Number(groupId),
      startTime: startTime.replaceAll(/\s+/g, ' '),
      commandLine,
      residentBytes: Number(kibibytes) * 1024,
      cpuMs: cpuMs(cpuTime),
      suspended: state.startsWith('T'),
    }))
}

/** From minutes, seconds and hundredths, such as "123:04.56"; hours, where there are any, stand before them. */
const cpuMs = (time: string): number =>
  Math.round(time.split(':').reduce((sum, part) => sum * 60 + Number(part), 0) * 1000)

/** From `netstat -anp tcp`: how many connections have `port` as their own end and are established. */
export const countEstablished = (text: string, port: number): number =>
  [...text.matchAll(/^tcp\S* +\d+ +\d+ +\S+\.(\d+) +\S+ +ESTABLISHED\b/gm)].filter(([, own]) => Number(own) === port)
    .length

/** From `lsof -Fpgc`: one field a line, its letter first; every process opens with `p`. */
export function parseLsof(text: string): (PortHolder & { pid: number; groupId: number })[] {
  return text
    .split(/^p/m)
    .slice(1)
    .map((block) => {
      const [pid, ...fields] = block.split('\n')
      const value = (letter: string) => fields.find((field) => field.startsWith(letter))?.slice(1)
      const command = value('c')
      return { pid: Number(pid), groupId: Number(value('g')), ...(command === undefined ? {} : { command }) }
    })
}

/** From `lsof -Ffn -d cwd,1`: a process opens with `p`, each of its files with `f`, its name with `n`. */
export function parseWorkplaces(text: string): Workplace[] {
  return text
    .split(/^p/m)
    .slice(1)
    .flatMap((block) => {
      const [pid] = block.split('\n', 1)
      const files = new Map(
        [...block.matchAll(/^f(\S+)\n(?:[^fn\n].*\n)*n(.*)$/gm)].map(([, file, name]) => [file, name]),
      )
      const [workingDirectory, output] = [files.get('cwd'), files.get('1')]
      if (workingDirectory === undefined) return []
      return [{ pid: Number(pid), workingDirectory, ...(output?.startsWith('/') === true && { output }) }]
    })
}

/** From `ps -E -o command=`, which prints the environment after the arguments; values with spaces are cut short. */
export const parseVariable = (text: string, name: string): string | undefined =>
  new RegExp(`(?:^|\\s)${name}=(\\S*)`).exec(text)?.[1]

const loginWindow = /\/loginwindow\.app\/Contents\/MacOS\/loginwindow( |$)/

/** Each login at the screen has a `loginwindow` process of its own, which belongs to the user and ends with the logout. */
export function loginSessionIn(processes: readonly ProcessFacts[]): string | undefined {
  const [session] = processes.filter(({ commandLine }) => loginWindow.test(commandLine))
  return session && `${session.pid} ${session.startTime}`
}

/** system_profiler names support under one of these keys, depending on the release of macOS. */
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
