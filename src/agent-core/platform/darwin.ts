import { biggestApplications } from './applications.ts'
import { runCommand, type CommandResult, type CommandRunner } from './command.ts'
import { coreLevels, performanceCoresIn } from './darwin-cores.ts'
import { parseLsof, parseWorkplaces } from './darwin-lsof.ts'
import {
  blocksAll,
  countEstablished,
  parseAllowedPrograms,
  parseBattery,
  parseDisplays,
  parseFirewallState,
  parseFootprints,
  parseLowPowerMode,
  parsePositiveInteger,
  parsePressureLevel,
  parseSleepMinutes,
  parseVmStat,
} from './darwin-output.ts'
import {
  lacksEntitlement,
  loginSessionIn,
  parsePs,
  parseResidentMemory,
  parseVariable,
  psColumns,
  psColumnsWithoutUsage,
  sessionColumns,
} from './darwin-ps.ts'
import { attemptAt, deniedSentence, isDenied, unreachableAddress } from './local-network.ts'
import type { AwakeProgram, PowerSupply } from './power-supply.ts'
import {
  hostInterfaces,
  pidsByGroup,
  PlatformError,
  type BigApplication,
  type Firewall,
  type HostInterface,
  type KernelPressure,
  type MemoryFigures,
  type Metal,
  type Platform,
  type PortListeners,
  type ProcessFacts,
  type Workplace,
} from './platform.ts'
import { inUrl } from '../../contract/addresses.ts'

/** By their absolute paths. */
export const darwinCommands = {
  sysctl: '/usr/sbin/sysctl',
  vmStat: '/usr/bin/vm_stat',
  memoryPressure: '/usr/bin/memory_pressure',
  footprint: '/usr/bin/footprint',
  ps: '/bin/ps',
  lsof: '/usr/sbin/lsof',
  netstat: '/usr/sbin/netstat',
  systemProfiler: '/usr/sbin/system_profiler',
  pmset: '/usr/bin/pmset',
  caffeinate: '/usr/bin/caffeinate',
  launchctl: '/bin/launchctl',
  tmutil: '/usr/bin/tmutil',
  firewall: '/usr/libexec/ApplicationFirewall/socketfilterfw',
}

const noUsageNotice =
  'On this version of macOS ps does not report the memory and processor time of a process: the biggest applications are not named, and a silent server counts as busy.'

/** What tests put in place of a Mac. */
interface DarwinParts {
  readonly run?: CommandRunner
  readonly attempt?: typeof attemptAt
  readonly interfaces?: () => readonly HostInterface[]
  readonly userId?: number | undefined
}

/** Everything from the commands that come with macOS. */
export class DarwinPlatform implements Platform {
  readonly name = 'darwin'
  readonly #run: CommandRunner
  readonly #attempt: typeof attemptAt
  readonly #interfaces: () => readonly HostInterface[]
  /** Effective user id of this process. */
  readonly #userId: number | undefined
  /** Set once ps has refused to tell memory and processor time. */
  #lacksUsage = false
  #onLimitation: ((sentence: string) => void) | undefined
  /** Never changes while the Mac runs. */
  #totalBytes: number | undefined

  constructor({
    run = runCommand(),
    attempt = attemptAt,
    interfaces = hostInterfaces,
    userId = process.geteuid?.(),
  }: DarwinParts = {}) {
    this.#userId = userId
    this.#run = run
    this.#attempt = attempt
    this.#interfaces = interfaces
  }

  onLimitation(tell: (sentence: string) => void): void {
    this.#onLimitation = tell
    if (this.#lacksUsage) tell(noUsageNotice)
  }

  async memory(): Promise<MemoryFigures> {
    const [totalBytes, vmStat] = await Promise.all([this.#memorySize(), this.#run(darwinCommands.vmStat, [])])
    const figures = parseVmStat(vmStat.stdout)
    if (figures === undefined) throw new PlatformError('vm_stat does not say how much memory is available.')
    return { totalBytes, ...figures, isCompressed: true }
  }

  async memoryPressureLevel(): Promise<KernelPressure | undefined> {
    return parsePressureLevel(
      (await this.#run(darwinCommands.sysctl, ['-n', 'kern.memorystatus_vm_pressure_level'])).stdout,
    )
  }

  /** One command for all; ps for those that `footprint` does not show, as it refuses processes of other users. */
  async footprints(pids: readonly number[]): Promise<ReadonlyMap<number, number>> {
    if (pids.length === 0) return new Map()
    const exact = await this.#physicalFootprints(pids)
    const unknown = pids.filter((pid) => !exact.has(pid))
    return unknown.length === 0 ? exact : new Map([...(await this.#residentBytes(unknown)), ...exact])
  }

  async #residentBytes(pids: readonly number[]): Promise<ReadonlyMap<number, number>> {
    if (this.#lacksUsage || pids.length === 0) return new Map()
    const columns = ['-o', 'pid=,rss=,comm=']
    const { stdout, stderr } = await this.#run(darwinCommands.ps, ['-ww', ...columns, '-p', pids.join(',')])
    if (this.#lacksUsageNow(stderr)) return new Map()
    return new Map(parseResidentMemory(stdout).map(({ pid, bytes }) => [pid, bytes]))
  }

  async gpuMemoryLimit(): Promise<number | undefined> {
    const mebibytes = await this.#sysctl('iogpu.wired_limit_mb')
    return mebibytes === undefined ? undefined : mebibytes * 1024 ** 2
  }

  async biggestProcesses(limit: number, except: ReadonlySet<number> = new Set()): Promise<readonly BigApplication[]> {
    if (this.#lacksUsage) return []
    const { exitCode, stdout, stderr } = await this.#run(darwinCommands.ps, ['-axww', '-o', 'pid=,rss=,comm='])
    if (this.#lacksUsageNow(stderr)) return []
    if (exitCode !== 0) throw new PlatformError(`ps ended with code ${exitCode}.`)
    return biggestApplications(
      parseResidentMemory(stdout).filter(({ pid }) => !except.has(pid)),
      limit,
    )
  }

  async process(pid: number): Promise<ProcessFacts | undefined> {
    return parsePs((await this.#ps('-ww', '-p', String(pid))).stdout)[0]
  }

  async processGroup(groupId: number): Promise<readonly ProcessFacts[]> {
    return (await this.#all('-axww')).filter((process) => process.groupId === groupId)
  }

  async membersOf(groupIds: ReadonlySet<number>): Promise<ReadonlyMap<number, readonly number[]>> {
    return pidsByGroup((await this.processes()).filter(({ groupId }) => groupIds.has(groupId)))
  }

  /** Without `-a` ps prints only processes of this user. */
  processes(): Promise<readonly ProcessFacts[]> {
    return this.#all('-xww')
  }

  /** lsof ends with code 1 where it could not look at everything, and still prints the rest. */
  async workplaces(): Promise<readonly Workplace[]> {
    const { stdout } = await this.#run(darwinCommands.lsof, [
      '-nPa',
      '-u',
      String(process.getuid?.()),
      '-d',
      'cwd,1',
      '-Ffn',
    ])
    return parseWorkplaces(stdout)
  }

  async variableOf(pid: number, name: string): Promise<string | undefined> {
    const { stdout } = await this.#run(darwinCommands.ps, ['-wwE', '-o', 'command=', '-p', String(pid)])
    return parseVariable(stdout, name)
  }

  /** Pids are handed out in turn, so that none comes round within seconds; launchd leaves no zombies. */
  isRunning({ pid }: Pick<ProcessFacts, 'pid'>): Promise<boolean> {
    try {
      return Promise.resolve(process.kill(pid, 0))
    } catch {
      return Promise.resolve(false)
    }
  }

  async powerSupply(): Promise<PowerSupply | undefined> {
    const [batteries, settings] = await Promise.all([
      this.#run(darwinCommands.pmset, ['-g', 'batt']),
      this.#run(darwinCommands.pmset, ['-g']),
    ])
    const battery = parseBattery(batteries.stdout)
    const sleepAfterMinutes = parseSleepMinutes(settings.stdout)
    return (
      battery && {
        ...battery,
        lowPowerMode: parseLowPowerMode(settings.stdout),
        ...(sleepAfterMinutes !== undefined && { sleepAfterMinutes }),
      }
    )
  }

  awakeProgram(): AwakeProgram {
    return { command: darwinCommands.caffeinate, args: ['-i', '-w', String(process.pid)] }
  }

  async bootId(): Promise<string> {
    const { stdout } = await this.#run(darwinCommands.sysctl, ['-n', 'kern.bootsessionuuid'])
    if (stdout.trim() === '') throw new PlatformError('sysctl does not say which boot this is.')
    return stdout.trim()
  }

  async loginSession(): Promise<string | undefined> {
    const { exitCode, stdout } = await this.#run(darwinCommands.ps, ['-axww', '-o', sessionColumns])
    if (exitCode !== 0) throw new PlatformError(`ps ended with code ${exitCode}.`)
    return loginSessionIn(stdout, process.geteuid?.())
  }

  /** Processes of other users are invisible to lsof, unless root asks: a port without a visible holder is not ours either. */
  async portListeners(port: number, groupId: number, host?: string): Promise<PortListeners> {
    const listeners = await this.#listeners(port, host)
    return {
      ours: listeners.filter((listener) => listener.groupId === groupId).map(({ pid }) => pid),
      others: listeners
        .filter((listener) => listener.groupId !== groupId)
        .map(({ pid, command }) => (command === undefined ? { pid } : { pid, command })),
    }
  }

  async isListenerOwn(port: number, host: string): Promise<boolean> {
    const listeners = await this.#listeners(port, host)
    return listeners.length > 0 && listeners.every(({ userId }) => userId === process.geteuid?.())
  }

  async #listeners(port: number, host = '0.0.0.0') {
    const { stdout } = await this.#run(darwinCommands.lsof, ['-nP', `-iTCP:${port}`, '-sTCP:LISTEN', '-Fpgcnu'])
    return parseLsof(stdout).filter(
      ({ names }) =>
        host === '0.0.0.0' ||
        host === '::' ||
        names.length === 0 ||
        names.some((name) => name.startsWith('*:') || name.startsWith(`${inUrl(host)}:`)),
    )
  }

  /** Not lsof: that takes ten times as long, and does not see what the server has not accepted yet. */
  async establishedConnections(port: number): Promise<number> {
    const { exitCode, stdout } = await this.#run(darwinCommands.netstat, ['-anp', 'tcp'])
    if (exitCode !== 0) throw new PlatformError(`netstat ended with code ${exitCode}.`)
    return countEstablished(stdout, port)
  }

  async performanceCores(): Promise<number | undefined> {
    return performanceCoresIn(await coreLevels((name) => this.#sysctlText(name)))
  }

  /** Apple silicon always has Metal; only an Intel Mac has to be asked, which takes about a second. */
  async metal(): Promise<Metal> {
    if ((await this.#sysctl('hw.optional.arm64')) === 1) {
      const message = 'This Mac has Apple silicon, so models run on its GPU through Metal.'
      return { available: true, isNotice: false, message }
    }
    const { stdout } = await this.#run(darwinCommands.systemProfiler, ['SPDisplaysDataType', '-json'])
    const available = parseDisplays(stdout) === true
    return {
      available,
      isNotice: true,
      message: available
        ? 'This Mac has an Intel processor and a GPU with Metal; models run, but slower than on Apple silicon.'
        : 'This Mac has no GPU with Metal, so no model can be served here: use a Mac with Apple silicon.',
    }
  }

  /** By its list of programs: `--getappblocked` calls a program permitted that the firewall has never heard of. */
  async firewall(): Promise<Firewall | undefined> {
    const ask = async (question: string) => (await this.#run(darwinCommands.firewall, [question])).stdout
    const state = parseFirewallState(await ask('--getglobalstate'))
    if (state !== 'byProgram') return state && { state }
    if (blocksAll(await ask('--getblockall'))) return { state: 'blocksAll' }
    return { state, allowed: parseAllowedPrograms(await ask('--listapps')) }
  }

  interfaces(): readonly HostInterface[] {
    return this.#interfaces()
  }

  /** Without `-p` the exclusion from Time Machine is an attribute of the folder, which goes where the folder goes and takes no rights of root. */
  async leaveOutOfBackups(folder: string): Promise<void> {
    const { exitCode, stderr = '' } = await this.#run(darwinCommands.tmutil, ['addexclusion', folder])
    if (exitCode !== 0) throw new PlatformError(`tmutil ended with code ${exitCode}: ${stderr.trim()}`)
  }

  async whyUnreachable(error: unknown): Promise<string | undefined> {
    const refusal = unreachableAddress(error)
    if (refusal === undefined) return undefined
    const [attempt, routes, session] = await Promise.all([
      this.#attempt(refusal),
      this.#run(darwinCommands.netstat, ['-rn']),
      this.#run(darwinCommands.launchctl, ['managername']),
    ])
    const denied = isDenied({
      ...refusal,
      attempt,
      interfaces: this.#interfaces(),
      routes: routes.stdout,
      userId: this.#userId,
      session: session.stdout,
    })
    return denied ? deniedSentence(refusal.address) : undefined
  }

  async #memorySize(): Promise<number> {
    this.#totalBytes ??= await this.#sysctl('hw.memsize')
    if (this.#totalBytes === undefined) throw new PlatformError('sysctl does not say how much memory this Mac has.')
    return this.#totalBytes
  }

  /** None where `footprint` cannot be run or takes too long: its answer is only better than that of ps. */
  async #physicalFootprints(pids: readonly number[]): Promise<Map<number, number>> {
    const targets = pids.flatMap((pid) => ['-p', String(pid)])
    try {
      const { stdout } = await this.#run(darwinCommands.footprint, ['--noCategories', '-f', 'bytes', ...targets])
      return parseFootprints(stdout, pids)
    } catch (error) {
      if (error instanceof PlatformError) return new Map()
      throw error
    }
  }

  async #all(which: string): Promise<readonly ProcessFacts[]> {
    const { exitCode, stdout } = await this.#ps(which)
    if (exitCode !== 0) throw new PlatformError(`ps ended with code ${exitCode}.`)
    return parsePs(stdout)
  }

  async #ps(format: string, ...which: readonly string[]): Promise<CommandResult> {
    if (!this.#lacksUsage) {
      const answer = await this.#run(darwinCommands.ps, [format, '-o', psColumns, ...which])
      if (!this.#lacksUsageNow(answer.stderr)) return answer
    }
    return this.#run(darwinCommands.ps, [format, '-o', psColumnsWithoutUsage, ...which])
  }

  /** True if ps may not read memory and processor time; reports that the first time. */
  #lacksUsageNow(stderr: string | undefined): boolean {
    if (!lacksEntitlement(stderr ?? '')) return false
    if (!this.#lacksUsage) this.#onLimitation?.(noUsageNotice)
    this.#lacksUsage = true
    return true
  }

  async #sysctl(name: string): Promise<number | undefined> {
    return parsePositiveInteger(await this.#sysctlText(name))
  }

  async #sysctlText(name: string): Promise<string> {
    return (await this.#run(darwinCommands.sysctl, ['-n', name])).stdout
  }
}
