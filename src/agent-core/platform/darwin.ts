import { biggestApplications } from './applications.ts'
import { runCommand, type CommandRunner } from './command.ts'
import {
  countEstablished,
  loginSessionIn,
  parseDisplays,
  parseFootprints,
  parseFreeFraction,
  parseLsof,
  parsePositiveInteger,
  parsePressureLevel,
  parsePs,
  parseResidentMemory,
  parseVariable,
  parseVmStat,
  parseWorkplaces,
  psColumns,
} from './darwin-output.ts'
import {
  hostInterfaces,
  pidsByGroup,
  PlatformError,
  type BigApplication,
  type HostInterface,
  type KernelPressure,
  type MemoryFigures,
  type Metal,
  type Platform,
  type PortListeners,
  type ProcessFacts,
  type Workplace,
} from './platform.ts'

const commands = {
  sysctl: '/usr/sbin/sysctl',
  vmStat: '/usr/bin/vm_stat',
  memoryPressure: '/usr/bin/memory_pressure',
  footprint: '/usr/bin/footprint',
  ps: '/bin/ps',
  lsof: '/usr/sbin/lsof',
  netstat: '/usr/sbin/netstat',
  systemProfiler: '/usr/sbin/system_profiler',
}

/** Everything from the commands that come with macOS, by their absolute paths. */
export class DarwinPlatform implements Platform {
  readonly name = 'darwin'
  readonly #run: CommandRunner
  /** Never changes while the Mac runs. */
  #totalBytes: number | undefined

  constructor({ run = runCommand() }: { run?: CommandRunner } = {}) {
    this.#run = run
  }

  async memory(): Promise<MemoryFigures> {
    const [totalBytes, vmStat] = await Promise.all([this.#memorySize(), this.#run(commands.vmStat, [])])
    const figures = parseVmStat(vmStat.stdout)
    if (figures === undefined) throw new PlatformError('vm_stat does not say how much memory is available.')
    return { totalBytes, ...figures }
  }

  async memoryPressureLevel(): Promise<KernelPressure | undefined> {
    return parsePressureLevel((await this.#run(commands.sysctl, ['-n', 'kern.memorystatus_vm_pressure_level'])).stdout)
  }

  async kernelFreeFraction(): Promise<number | undefined> {
    return parseFreeFraction((await this.#run(commands.memoryPressure, ['-Q'])).stdout)
  }

  /** One command for all; ps for those that `footprint` does not show, as it refuses processes of other users. */
  async footprints(pids: readonly number[]): Promise<ReadonlyMap<number, number>> {
    if (pids.length === 0) return new Map()
    const exact = await this.#physicalFootprints(pids)
    const unknown = pids.filter((pid) => !exact.has(pid))
    return unknown.length === 0 ? exact : new Map([...(await this.#residentBytes(unknown)), ...exact])
  }

  async gpuMemoryLimit(): Promise<number | undefined> {
    const mebibytes = await this.#sysctl('iogpu.wired_limit_mb')
    return mebibytes === undefined ? undefined : mebibytes * 1024 ** 2
  }

  async biggestProcesses(limit: number, except: ReadonlySet<number> = new Set()): Promise<readonly BigApplication[]> {
    const { exitCode, stdout } = await this.#run(commands.ps, ['-axww', '-o', 'pid=,rss=,comm='])
    if (exitCode !== 0) throw new PlatformError(`ps ended with code ${exitCode}.`)
    return biggestApplications(
      parseResidentMemory(stdout).filter(({ pid }) => !except.has(pid)),
      limit,
    )
  }

  async process(pid: number): Promise<ProcessFacts | undefined> {
    const { stdout } = await this.#run(commands.ps, ['-ww', '-o', psColumns, '-p', String(pid)])
    return parsePs(stdout)[0]
  }

  async processGroup(groupId: number): Promise<readonly ProcessFacts[]> {
    return (await this.#ps('-axww')).filter((process) => process.groupId === groupId)
  }

  async membersOf(groupIds: ReadonlySet<number>): Promise<ReadonlyMap<number, readonly number[]>> {
    return pidsByGroup((await this.processes()).filter(({ groupId }) => groupIds.has(groupId)))
  }

  /** Without `-a` ps prints only processes of this user. */
  processes(): Promise<readonly ProcessFacts[]> {
    return this.#ps('-xww')
  }

  /** lsof ends with code 1 where it could not look at everything, and still prints the rest. */
  async workplaces(): Promise<readonly Workplace[]> {
    const { stdout } = await this.#run(commands.lsof, ['-nPa', '-u', String(process.getuid?.()), '-d', 'cwd,1', '-Ffn'])
    return parseWorkplaces(stdout)
  }

  async variableOf(pid: number, name: string): Promise<string | undefined> {
    const { stdout } = await this.#run(commands.ps, ['-wwE', '-o', 'command=', '-p', String(pid)])
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

  async bootId(): Promise<string> {
    const { stdout } = await this.#run(commands.sysctl, ['-n', 'kern.bootsessionuuid'])
    if (stdout.trim() === '') throw new PlatformError('sysctl does not say which boot this is.')
    return stdout.trim()
  }

  async loginSession(): Promise<string | undefined> {
    return loginSessionIn(await this.processes())
  }

  /** Processes of other users are invisible to lsof: a port without a visible holder is not ours either. */
  async portListeners(port: number, groupId: number): Promise<PortListeners> {
    const { stdout } = await this.#run(commands.lsof, ['-nP', `-iTCP:${port}`, '-sTCP:LISTEN', '-Fpgc'])
    const listeners = parseLsof(stdout)
    return {
      ours: listeners.filter((listener) => listener.groupId === groupId).map(({ pid }) => pid),
      others: listeners
        .filter((listener) => listener.groupId !== groupId)
        .map(({ pid, command }) => (command === undefined ? { pid } : { pid, command })),
    }
  }

  /** Not lsof: that takes ten times as long, and does not see what the server has not accepted yet. */
  async establishedConnections(port: number): Promise<number> {
    const { exitCode, stdout } = await this.#run(commands.netstat, ['-anp', 'tcp'])
    if (exitCode !== 0) throw new PlatformError(`netstat ended with code ${exitCode}.`)
    return countEstablished(stdout, port)
  }

  performanceCores(): Promise<number | undefined> {
    return this.#sysctl('hw.perflevel0.physicalcpu')
  }

  /** Apple silicon always has Metal; only an Intel Mac has to be asked, which takes about a second. */
  async metal(): Promise<Metal> {
    if ((await this.#sysctl('hw.optional.arm64')) === 1) {
      return { available: true, message: 'This Mac has Apple silicon, so models run on its GPU through Metal.' }
    }
    const { stdout } = await this.#run(commands.systemProfiler, ['SPDisplaysDataType', '-json'])
    const available = parseDisplays(stdout) === true
    return {
      available,
      message: available
        ? 'This Mac has an Intel processor and a GPU with Metal; models run, but slower than on Apple silicon.'
        : 'This Mac has no GPU with Metal, so no model can be served here: use a Mac with Apple silicon.',
    }
  }

  interfaces(): readonly HostInterface[] {
    return hostInterfaces()
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
      return parseFootprints(
        (await this.#run(commands.footprint, ['--noCategories', '-f', 'bytes', ...targets])).stdout,
      )
    } catch (error) {
      if (error instanceof PlatformError) return new Map()
      throw error
    }
  }

  async #residentBytes(pids: readonly number[]): Promise<[pid: number, bytes: number][]> {
    const { stdout } = await this.#run(commands.ps, ['-ww', '-o', 'pid=,rss=,comm=', '-p', pids.join(',')])
    return parseResidentMemory(stdout).map(({ pid, bytes }) => [pid, bytes])
  }

  async #ps(which: string): Promise<readonly ProcessFacts[]> {
    const { exitCode, stdout } = await this.#run(commands.ps, [which, '-o', psColumns])
    if (exitCode !== 0) throw new PlatformError(`ps ended with code ${exitCode}.`)
    return parsePs(stdout)
  }

  async #sysctl(name: string): Promise<number | undefined> {
    return parsePositiveInteger((await this.#run(commands.sysctl, ['-n', name])).stdout)
  }
}
