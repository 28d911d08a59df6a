import { runCommand, type CommandRunner } from './command.ts'
import {
  countEstablished,
  parseDisplays,
  parseLsof,
  parsePositiveInteger,
  parsePs,
  parseVmStat,
  psColumns,
} from './darwin-output.ts'
import {
  hostInterfaces,
  PlatformError,
  type HostInterface,
  type MemoryFigures,
  type Metal,
  type Platform,
  type PortListeners,
  type ProcessFacts,
} from './platform.ts'

const commands = {
  sysctl: '/usr/sbin/sysctl',
  vmStat: '/usr/bin/vm_stat',
  ps: '/bin/ps',
  lsof: '/usr/sbin/lsof',
  netstat: '/usr/sbin/netstat',
  systemProfiler: '/usr/sbin/system_profiler',
}

/** Everything from the commands that come with macOS, by their absolute paths. */
export class DarwinPlatform implements Platform {
  readonly name = 'darwin'
  readonly #run: CommandRunner

  constructor({ run = runCommand() }: { run?: CommandRunner } = {}) {
    this.#run = run
  }

  async memory(): Promise<MemoryFigures> {
    const [totalBytes, vmStat] = await Promise.all([this.#sysctl('hw.memsize'), this.#run(commands.vmStat, [])])
    const availableBytes = parseVmStat(vmStat.stdout)
    if (totalBytes === undefined) throw new PlatformError('sysctl does not say how much memory this Mac has.')
    if (availableBytes === undefined) throw new PlatformError('vm_stat does not say how much memory is available.')
    return { totalBytes, availableBytes }
  }

  async process(pid: number): Promise<ProcessFacts | undefined> {
    const { stdout } = await this.#run(commands.ps, ['-ww', '-o', psColumns, '-p', String(pid)])
    return parsePs(stdout)[0]
  }

  async processGroup(groupId: number): Promise<readonly ProcessFacts[]> {
    const { exitCode, stdout } = await this.#run(commands.ps, ['-axww', '-o', psColumns])
    if (exitCode !== 0) throw new PlatformError(`ps ended with code ${exitCode}.`)
    return parsePs(stdout).filter((process) => process.groupId === groupId)
  }

  /** Processes of other users are invisible to lsof: what nobody is seen to hold is not ours either. */
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

  async #sysctl(name: string): Promise<number | undefined> {
    return parsePositiveInteger((await this.#run(commands.sysctl, ['-n', name])).stdout)
  }
}
