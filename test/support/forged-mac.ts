import { readFileSync } from 'node:fs'
import { readFile, readlink } from 'node:fs/promises'
import type { CommandResult, CommandRunner } from '../../src/agent-core/platform/command.ts'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { psColumns, psColumnsWithoutUsage, sessionColumns } from '../../src/agent-core/platform/darwin-ps.ts'

const afterSources = (name: string) =>
  readFileSync(new URL(`../unit/platform/after-sources/${name}`, import.meta.url), 'utf8').trimEnd()

const ended = (stdout: string, more: Partial<CommandResult> = {}): CommandResult => ({ exitCode: 0, stdout, ...more })

/** As `lstart` prints it under TZ=UTC. */
function startedAt(ms: number): string {
  const [day = '', date, month, year, time] = new Date(ms).toUTCString().split(' ')
  return `${day.slice(0, 3)} ${month} ${date} ${time} ${year}`
}

/** As lsof prints it under LC_ALL=C. */
const escaped = (path: string): string =>
  [...Buffer.from(path)]
    .map((byte) => (byte === 0x5c ? '\\\\' : byte < 0x80 ? String.fromCharCode(byte) : `\\x${byte.toString(16)}`))
    .join('')

/** `/proc/net/tcp` has addresses in hexadecimal, and 01 for established. */
const connectionsOfLinux = () =>
  [...readFileSync('/proc/net/tcp', 'utf8').matchAll(/: \w{8}:(\w{4}) \w{8}:(\w{4}) 01 /g)].map(
    ([, own = '', other = '']) => {
      const [from, to] = [Number.parseInt(own, 16), Number.parseInt(other, 16)]
      return `tcp4       0      0  127.0.0.1.${from}        127.0.0.1.${to}        ESTABLISHED`
    },
  )

export interface ForgedMac {
  /** ps refuses memory and processor time. */
  readonly lacksUsage?: boolean
  /** What its llama-server serves. */
  readonly model?: string
  /** Answers of one's own, by the end of the command line. */
  readonly answers?: Readonly<Record<string, CommandResult | Error>>
}

/** The commands of a Mac with an M6, as this machine's own processes, files and connections would look there. */
export function forgedMac({ lacksUsage = false, model = '/dev/null', answers = {} }: ForgedMac = {}): CommandRunner {
  const host = hostPlatform()
  const rows = async (of: (facts: Awaited<ReturnType<typeof host.processes>>[number]) => string) =>
    (await host.processes()).map(of).join('\n')
  const start = startedAt(performance.timeOrigin)
  const usage = (kilobytes = 0) => (lacksUsage ? '' : `${Math.round(kilobytes)}   0:03.10 `)
  const told = (stdout: string) =>
    ended(stdout, lacksUsage ? { exitCode: 1, stderr: 'ps: rss: requires entitlement' } : {})

  const ps = async (args: readonly string[]): Promise<CommandResult> => {
    const [columns = '', pid] = [args[2], args[3] === '-p' ? Number(args[4]) : undefined]
    if (columns === psColumns || columns === psColumnsWithoutUsage) {
      const table = await rows(
        (one) => `${one.pid} ${one.groupId} S ${usage((one.residentBytes ?? 0) / 1024)}${start} ${one.commandLine}`,
      )
      const wanted = table.split('\n').filter((row) => pid === undefined || row.startsWith(`${pid} `))
      return columns === psColumns ? told(wanted.join('\n')) : ended(wanted.join('\n'))
    }
    if (columns === sessionColumns) return ended(`${process.geteuid?.()} 388 ${start} ${loginwindow}`)
    if (columns === 'command=') return ended(`sleep 60 ${await variables(Number(args.at(-1)))}`)
    if (columns === 'uid=,ruid=,pid=,comm=')
      return ended(`  0   0     1 /sbin/launchd\n501   0   388 ${loginwindow.split(' ')[0]}`)
    if (columns === 'pid=,comm=') return ended(' 640 /System/Library/CoreServices/Finder.app/Contents/MacOS/Finder')
    if (columns === 'pid=,command=') return ended(`  934 /opt/homebrew/bin/llama-server --model ${model} --port 1`)
    return told(columns.includes('comm') ? afterSources('ps-applications.txt') : usage(14_320).trim())
  }
  /** Of what Apple ships, ps tells the command line alone. */
  const variables = async (pid: number) =>
    (await readlink(`/proc/${pid}/exe`)).startsWith(process.execPath)
      ? (await readFile(`/proc/${pid}/environ`, 'utf8')).replaceAll('\0', ' ')
      : ''
  const lsof = async (args: readonly string[]): Promise<CommandResult> => {
    if (args.at(-1) === '-Fpgcn') {
      const groupId = (await host.process(process.pid))?.groupId
      return ended(`p${process.pid}\ng${groupId}\ncnode\nf12`)
    }
    const places = await host.workplaces()
    return ended(places.map(({ pid, workingDirectory }) => `p${pid}\nfcwd\nn${escaped(workingDirectory)}`).join('\n'))
  }
  const footprint = (args: readonly string[]): CommandResult => {
    const pid = args.at(-1) ?? ''
    const one = afterSources('footprint.txt')
      .split(/\n=+\npython3/)[0]
      ?.replace('[934]', `[${pid}]`)
    if (pid !== '99998') return ended(one ?? '')
    const gone = `footprint: Unable to find pid for process matching '${pid}'`
    return {
      exitCode: 1,
      stdout: '',
      stderr: `${gone}\nfootprint: Unable to find any processes matching (try as root?)`,
    }
  }

  return async (command, args) => {
    const line = [command, ...args].join(' ')
    const own = Object.entries(answers).find(([end]) => line.endsWith(end))?.[1]
    if (own instanceof Error) throw own
    if (own !== undefined) return own
    const program = command.split('/').at(-1)
    if (program === 'ps') return ps(args)
    if (program === 'lsof') return lsof(args)
    if (program === 'footprint') return footprint(args)
    if (program === 'netstat') return ended(connectionsOfLinux().join('\n'))
    if (program === 'vm_stat') return ended(afterSources('vm_stat.txt'))
    if (program === 'memory_pressure') return ended('System-wide memory free percentage: 30%')
    if (program === 'system_profiler') return ended(afterSources('system_profiler-apple-silicon.json'))
    const answer = simple[`${program} ${args.at(-1)}`]
    return answer === undefined ? { exitCode: 1, stdout: '', stderr: `not forged: ${line}` } : ended(answer)
  }
}

const loginwindow = '/System/Library/CoreServices/loginwindow.app/Contents/MacOS/loginwindow console'

const simple: Readonly<Record<string, string>> = {
  'sw_vers -productVersion': '27.0.1',
  'sw_vers -buildVersion': '27A81',
  'getconf DARWIN_USER_TEMP_DIR': '/var/folders/zz/zyx/T/',
  'sysctl machdep.cpu.brand_string': 'Apple M6',
  'sysctl hw.memsize': '68719476736',
  'sysctl kern.memorystatus_vm_pressure_level': '1',
  'sysctl kern.bootsessionuuid': '5E2A9C1B-0F6D-4B7E-9A55-1C2D3E4F5A6B',
  'sysctl iogpu.wired_limit_mb': '0',
  'sysctl hw.nperflevels': '3',
  'sysctl hw.perflevel0.name': 'Super',
  'sysctl hw.perflevel0.physicalcpu': '2',
  'sysctl hw.perflevel1.name': 'Performance',
  'sysctl hw.perflevel1.physicalcpu': '4',
  'sysctl hw.perflevel2.name': 'Efficiency',
  'sysctl hw.perflevel2.physicalcpu': '6',
}
