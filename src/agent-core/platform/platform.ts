import { networkInterfaces } from 'node:os'

export interface MemoryFigures {
  readonly totalBytes: number
  /** What a new process could take without pushing others out, as the kernel estimates it. */
  readonly availableBytes: number
}

/** One living process. A zombie (exited, not yet reaped) is not one. */
export interface ProcessFacts {
  readonly pid: number
  readonly groupId: number
  /** Only good for comparison: with the pid it tells a process from a later one with the same pid. */
  readonly startTime: string
  readonly commandLine: string
  readonly residentBytes: number
  /** Processor time used so far by all of its threads, in milliseconds; as fine as the system counts, which is 10 ms. */
  readonly cpuMs: number
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

/** Who listens on a TCP port of this host, whatever the address: seen from one process group. */
export interface PortListeners {
  /** Processes of the group that listen there. */
  readonly ours: readonly number[]
  readonly others: readonly PortHolder[]
}

export interface Metal {
  readonly available: boolean
  /** One sentence, also where Metal is available. */
  readonly message: string
}

export interface HostInterface {
  readonly name: string
  readonly address: string
  readonly family: 'IPv4' | 'IPv6'
  readonly netmask: string
  /** Loopback. */
  readonly internal: boolean
}

/**
 * What the agent asks of the operating system. Every method throws PlatformError when the system does not answer;
 * "there is no such process" is an answer.
 */
export interface Platform {
  readonly name: 'darwin' | 'linux'
  memory(): Promise<MemoryFigures>
  process(pid: number): Promise<ProcessFacts | undefined>
  processGroup(groupId: number): Promise<readonly ProcessFacts[]>
  /** All of this user. */
  processes(): Promise<readonly ProcessFacts[]>
  /** Of all processes of this user, those that cannot be looked at left out. */
  workplaces(): Promise<readonly Workplace[]>
  /** A variable of the environment that the process was started with; undefined where the system does not show it. */
  variableOf(pid: number, name: string): Promise<string | undefined>
  /** Cheap enough to be asked about fifty processes twice a second. */
  isRunning(process: Pick<ProcessFacts, 'pid' | 'startTime'>): Promise<boolean>
  /** Another after every boot: pids and start times of an earlier one mean nothing. */
  bootId(): Promise<string>
  /** Another after every login at the screen; undefined where nobody is logged in there. */
  loginSession(): Promise<string | undefined>
  portListeners(port: number, groupId: number): Promise<PortListeners>
  /** TCP connections to this port of this host that are open at both ends, whoever opened them and from wherever. */
  establishedConnections(port: number): Promise<number>
  /** Undefined where cores do not come in two kinds, or the system does not say. */
  performanceCores(): Promise<number | undefined>
  metal(): Promise<Metal>
  interfaces(): readonly HostInterface[]
}

export class PlatformError extends Error {
  override readonly name = 'PlatformError'
}

/** In the order of the operating system. */
export function hostInterfaces(): HostInterface[] {
  return Object.entries(networkInterfaces()).flatMap(([name, addresses]) =>
    (addresses ?? []).map(({ address, family, netmask, internal }) => ({ name, address, family, netmask, internal })),
  )
}
