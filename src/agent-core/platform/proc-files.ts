import ipaddr from 'ipaddr.js'

/** From /proc/PID/stat. */
export interface ProcStat {
  readonly state: string
  readonly groupId: number
  readonly threads: number
  readonly cpuTicks: number
  /** Clock ticks after boot. */
  readonly startTicks: string
}

/**
 * The command name stands in parentheses and may hold parentheses and spaces itself, so fields count from the last one. Throws where it
 * does not read like that.
 */
export function parseStat(text: string): ProcStat {
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [state = '', , groupId] = fields
  const [cpuTicks, threads, startTicks = ''] = [Number(fields[11]) + Number(fields[12]), fields[17], fields[19]]
  const stat = { state, groupId: Number(groupId), threads: Number(threads), cpuTicks, startTicks }
  const areNumbers = [stat.groupId, stat.threads, cpuTicks].every(Number.isSafeInteger) && /^\d+$/.test(startTicks)
  if (state.length !== 1 || !areNumbers) throw new Error(`not what /proc/PID/stat holds: ${text}`)
  return stat
}

/**
 * Z: exited, waiting for its parent to take note. X: being removed. While other threads are still on their way out, the process holds
 * its memory and sockets although its first thread is a zombie.
 */
export const isGone = ({ state, threads }: ProcStat): boolean => state === 'X' || (state === 'Z' && threads <= 1)

/** T: by a signal. t: by a debugger. */
export const isSuspended = ({ state }: ProcStat): boolean => state === 'T' || state === 't'

/** USER_HZ, which Linux has fixed at 100 a second for everything it tells programs. */
const tickMs = 10

export const cpuMsOf = ({ cpuTicks }: ProcStat): number => cpuTicks * tickMs

/** Bytes; 0 where the line is missing, as in kernel threads. */
export const parseResidentBytes = (status: string): number => kibibytes(status, 'VmRSS') ?? 0

export function parseMeminfo(text: string): { totalBytes: number; availableBytes: number } | undefined {
  const totalBytes = kibibytes(text, 'MemTotal')
  const availableBytes = kibibytes(text, 'MemAvailable')
  return totalBytes === undefined || availableBytes === undefined ? undefined : { totalBytes, availableBytes }
}

/** From /proc/PID/smaps_rollup; undefined where it does not say, as for processes without memory of their own. */
export const parseProportionalBytes = (rollup: string): number | undefined => kibibytes(rollup, 'Pss')

/**
 * Percent of the last ten seconds that processes waited for memory. Choices of ours, well below the 60 % over 30 s at
 * which systemd-oomd kills by default: models are to leave before the system takes what it likes.
 */
const pressureLimits = { someWaited: 10, allWaited: 10 }

/** From /proc/pressure/memory: undefined where it does not read like it. */
export function parsePressure(text: string): 'normal' | 'warning' | 'critical' | undefined {
  const average = (line: string) =>
    Number(new RegExp(`^${line} avg10=(\\d+\\.\\d+) `, 'm').exec(text)?.[1] ?? Number.NaN)
  const [some, all] = [average('some'), average('full')]
  if (Number.isNaN(some)) return undefined
  if (all > pressureLimits.allWaited) return 'critical'
  return some > pressureLimits.someWaited ? 'warning' : 'normal'
}

/** Arguments are separated by NUL. */
export const parseCommandLine = (text: string): string => text.replace(/(?<!\0)\0+$/, '').replaceAll('\0', ' ')

/** The value of a variable in /proc/PID/environ. */
export const parseVariable = (environ: string, name: string): string | undefined =>
  environ
    .split('\0')
    .find((variable) => variable.startsWith(`${name}=`))
    ?.slice(name.length + 1)

const listenState = '0A'
const establishedState = '01'

/** Inodes of the sockets that listen on `port`, from /proc/net/tcp or tcp6; `host`: only of those that get what is sent there. */
export const parseListeningInodes = (text: string, port: number, host = '0.0.0.0'): string[] =>
  listenersOn(text, port, host).flatMap((fields) => fields[9] ?? [])

/** The numbers of the users whose they are. */
export const parseListeningUsers = (text: string, port: number, host: string): number[] =>
  listenersOn(text, port, host).map((fields) => Number(fields[7]))

const listenersOn = (text: string, port: number, host: string) =>
  socketsOn(text, port, listenState).filter(([, local = '']) => listensAt(local.split(':', 1)[0] ?? '', host))

/** `address`: hexadecimal, each four bytes as a number of this machine, which counts from the lowest. */
function listensAt(address: string, host: string): boolean {
  if (host === '0.0.0.0' || host === '::' || /^0+$/.test(address)) return true
  const wanted = hexOf(ipaddr.parse(host).toByteArray())
  return address === wanted || address.endsWith(`FFFF0000${wanted}`)
}

const hexOf = (bytes: readonly number[]): string =>
  Array.from({ length: bytes.length / 4 }, (_, index) =>
    Buffer.from(bytes.slice(4 * index, 4 * index + 4).toReversed()).toString('hex'),
  )
    .join('')
    .toUpperCase()

/** How many connections to `port` are established, from /proc/net/tcp or tcp6: the ends that have it as their own. */
export const countEstablished = (text: string, port: number): number => socketsOn(text, port, establishedState).length

/** The fields of each socket with this local port in this state. */
function socketsOn(text: string, port: number, state: string): string[][] {
  const hexPort = port.toString(16).toUpperCase().padStart(4, '0')
  return text
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[3] === state && fields[1]?.endsWith(`:${hexPort}`))
}

function kibibytes(text: string, field: string): number | undefined {
  const value = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1]
  return value === undefined ? undefined : Number(value) * 1024
}
