import { z } from 'zod'
import type { PortHolder, ProcessFacts, Workplace } from './platform.ts'

/** Every page that can be handed out without writing to swap; a missing optional line counts as none. */
const availablePages = ['Pages free', 'Pages inactive', 'Pages speculative', 'Pages purgeable']

/** Bytes, from `vm_stat`; undefined where it does not read like it. */
export function parseVmStat(text: string): number | undefined {
  const pageSize = /page size of (\d+) bytes/.exec(text)?.[1]
  const pages = new Map([...text.matchAll(/^"?([^":]+)"?:\s+(\d+)\.?$/gm)].map(([, name = '', count]) => [name, count]))
  if (pageSize === undefined || !pages.has('Pages free')) return undefined
  return availablePages.reduce((sum, name) => sum + Number(pages.get(name) ?? 0), 0) * Number(pageSize)
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

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
