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
