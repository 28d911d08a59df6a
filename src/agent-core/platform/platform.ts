import { networkInterfaces } from 'node:os'
import type { AwakeProgram, PowerSupply } from './power-supply.ts'

export interface MemoryFigures {
  /** Memory of this machine, or the limit of our cgroup where that is less. */
  readonly totalBytes: number
  /** What a new process could take without pushing others out, as the kernel estimates it. */
  readonly availableBytes: number
  /** What the kernel can neither compress nor swap; undefined where the system does not say. */
  readonly wiredBytes?: number
  /** The kernel compresses unused memory before memory is short, and says when that no longer helps. */
  readonly isCompressed?: boolean
}

/** The kernel's own word for how short of memory it is. */
export type KernelPressure = 'normal' | 'warning' | 'critical'

/** All processes of one application, its helpers included. */
export interface BigApplication {
  readonly name: string
  readonly bytes: number
  /** The biggest of its processes. */
  readonly pid: number
}

/** One living process. A zombie (exited, not yet reaped) is not one. */
export interface ProcessFacts {
  readonly pid: number
  readonly groupId: number
  /** Only good for comparison: with the pid it tells a process from a later one with the same pid. */
  readonly startTime: string
  readonly commandLine: string
  /** Absent where the system does not tell. */
  readonly residentBytes?: number
  /**
   * Processor time used so far by all of its threads, in milliseconds; as fine as the system counts, which is 10 ms. Absent where the system
   * does not tell.
   */
  readonly cpuMs?: number
  /** Stopped by SIGSTOP, a terminal or a debugger: it does nothing until it is continued. */
  readonly suspended: boolean
}

export interface PortHolder {
  /** Absent where the system does not tell us whose it is, as with other users' processes. */
  readonly pid?: number
  readonly command?: string
}

/** Where a process works and where its output goes, as far as the system tells us. */
export interface Workplace {
  readonly pid: number
  readonly workingDirectory: string
  /** The file behind its standard output; absent where that is none. */
  readonly output?: string
}

/** The listeners on a TCP port of this host, whatever the address: seen from one process group. */
export interface PortListeners {
  /** Processes of the group that listen there. */
  readonly ours: readonly number[]
  readonly others: readonly PortHolder[]
}

export interface Metal {
  readonly available: boolean
  /** One sentence, also where Metal is available. */
  readonly message: string
  /** Whether that is something to tell whoever serves models here. */
  readonly isNotice: boolean
}

export interface HostInterface {
  readonly name: string
  readonly address: string
  readonly family: 'IPv4' | 'IPv6'
  readonly netmask: string
  /** True for the loopback interface. */
  readonly internal: boolean
}

/** What the system's firewall does with connections from other machines; those of this machine always pass. */
export type Firewall =
  | { readonly state: 'off' }
  | { readonly state: 'blocksAll' }
  /** `allowed`: paths of programs and apps. */
  | { readonly state: 'byProgram'; readonly allowed: ReadonlySet<string> }

/**
 * What the agent asks of the operating system. Every method throws PlatformError when the system does not answer;
 * "there is no such process" is an answer.
 */
export interface Platform {
  readonly name: 'darwin' | 'linux'
  memory(): Promise<MemoryFigures>
  /** Undefined where the kernel does not say. */
  memoryPressureLevel(): Promise<KernelPressure | undefined>
  /**
   * Bytes that each process really costs: phys_footprint on macOS, the proportional set size on Linux; the resident size
   * where we may not look closer. Processes that are gone are left out.
   */
  footprints(pids: readonly number[]): Promise<ReadonlyMap<number, number>>
  /** What the GPU may wire at most, in bytes, where a person has set it; undefined where macOS decides. */
  gpuMemoryLimit(): Promise<number | undefined>
  /** The applications with the most memory, biggest first; processes in `except` do not count. */
  biggestProcesses(limit: number, except?: ReadonlySet<number>): Promise<readonly BigApplication[]>
  process(pid: number): Promise<ProcessFacts | undefined>
  processGroup(groupId: number): Promise<readonly ProcessFacts[]>
  /** Pids of the living members of each of these process groups: all groups in one look at the process table. */
  membersOf(groupIds: ReadonlySet<number>): Promise<ReadonlyMap<number, readonly number[]>>
  /** All processes of this user. */
  processes(): Promise<readonly ProcessFacts[]>
  /** Working directories of all processes of this user; those that cannot be inspected are left out. */
  workplaces(): Promise<readonly Workplace[]>
  /** A variable of the environment that the process was started with; undefined where the system does not show it. */
  variableOf(pid: number, name: string): Promise<string | undefined>
  /** Cheap enough to be asked about fifty processes twice a second. */
  isRunning(process: Pick<ProcessFacts, 'pid' | 'startTime'>): Promise<boolean>
  /** What the machine runs on; undefined where the system does not say. */
  powerSupply(): Promise<PowerSupply | undefined>
  /** What keeps the system from going to sleep by itself while this process lives; undefined where there is no such program. */
  awakeProgram(): AwakeProgram | undefined
  /** Another after every boot: pids and start times of an earlier one mean nothing. */
  bootId(): Promise<string>
  /** Another after every login at the screen; undefined where no user is logged in there. */
  loginSession(): Promise<string | undefined>
  /** `host`: only those that may get what is sent to this address; absent or 0.0.0.0 = all. */
  portListeners(port: number, groupId: number, host?: string): Promise<PortListeners>
  /** Whether all that get what is sent to that port of this address of this host are this user's; undefined where certainly nobody listens. */
  isListenerOwn(port: number, host: string): Promise<boolean | undefined>
  /** TCP connections to this port of this host that are open at both ends, from any address and of any process. */
  establishedConnections(port: number): Promise<number>
  /** Undefined where cores do not come in two kinds, or the system does not say. */
  performanceCores(): Promise<number | undefined>
  metal(): Promise<Metal>
  interfaces(): readonly HostInterface[]
  /** Undefined where the system has none that judges by program, or does not say. */
  firewall(): Promise<Firewall | undefined>
  /**
   * One sentence where the system keeps this program from the local network, which is why connecting failed; undefined where it failed for
   * another reason. Absent where no system does that.
   */
  whyUnreachable?(error: unknown): Promise<string | undefined>
  /** A folder that can be fetched again; absent where the system makes no backups by itself. */
  leaveOutOfBackups?(folder: string): Promise<void>
  /** `tell` gets one sentence about what this version of the system turned out not to tell, once; absent where there is no such thing. */
  onLimitation?(tell: (sentence: string) => void): void
}

export class PlatformError extends Error {
  override readonly name = 'PlatformError'
}

export function pidsByGroup(
  processes: readonly Pick<ProcessFacts, 'pid' | 'groupId'>[],
): ReadonlyMap<number, readonly number[]> {
  const groups = Map.groupBy(processes, ({ groupId }) => groupId)
  return new Map([...groups].map(([groupId, members]) => [groupId, members.map(({ pid }) => pid)]))
}

/** In the order of the operating system. */
export function hostInterfaces(): HostInterface[] {
  return Object.entries(networkInterfaces()).flatMap(([name, addresses]) =>
    (addresses ?? []).map(({ address, family, netmask, internal }) => ({ name, address, family, netmask, internal })),
  )
}
