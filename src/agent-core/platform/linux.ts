import { readFileSync } from 'node:fs'
import { readdir, readFile, readlink, stat } from 'node:fs/promises'
import { hasCode } from '../support/files.ts'
import { biggestApplications, type ProcessMemory } from './applications.ts'
import { cgroupFolders, cgroupMemory, cgroupPressureFile } from './cgroup.ts'
import {
  hostInterfaces,
  PlatformError,
  type BigApplication,
  type HostInterface,
  type KernelPressure,
  type MemoryFigures,
  type Metal,
  type Platform,
  type PortHolder,
  type PortListeners,
  type ProcessFacts,
  type Workplace,
} from './platform.ts'
import {
  countEstablished,
  cpuMsOf,
  isGone,
  isSuspended,
  parseCommandLine,
  parseListeningInodes,
  parseMeminfo,
  parsePressure,
  parseProportionalBytes,
  parseResidentBytes,
  parseStat,
  parseVariable,
  type ProcStat,
} from './proc-files.ts'

/** Everything from /proc: no command is run. */
export class LinuxPlatform implements Platform {
  readonly name = 'linux'

  /** As much as the machine has, or as our cgroup and those above it leave us. */
  async memory(): Promise<MemoryFigures> {
    const [meminfo, bounds] = await Promise.all([readProc('/proc/meminfo'), cgroupBounds()])
    const machine = parseMeminfo(meminfo ?? '')
    if (!machine) throw new PlatformError('/proc/meminfo does not say how much memory there is.')
    return {
      ...machine,
      totalBytes: Math.min(machine.totalBytes, ...bounds.map(({ limitBytes }) => limitBytes)),
      availableBytes: Math.min(machine.availableBytes, ...bounds.map(({ availableBytes }) => availableBytes)),
    }
  }

  /** From the pressure stall information of the machine and of our cgroup: the worse counts. */
  async memoryPressureLevel(): Promise<KernelPressure | undefined> {
    const [membership, mounts] = await ownCgroup()
    const own = cgroupPressureFile(membership, mounts)
    const texts = await Promise.all(['/proc/pressure/memory', ...(own === undefined ? [] : [own])].map(readIfOffered))
    const levels = texts.flatMap((text) => (text === undefined ? [] : (parsePressure(text) ?? [])))
    return (['critical', 'warning', 'normal'] as const).find((level) => levels.includes(level))
  }

  kernelFreeFraction(): Promise<number | undefined> {
    return Promise.resolve(undefined)
  }

  async footprints(pids: readonly number[]): Promise<ReadonlyMap<number, number>> {
    const sizes = await Promise.all(pids.map(footprintOf))
    return new Map(pids.flatMap((pid, index) => [[pid, sizes[index] ?? 0] as const]).filter(([, size]) => size > 0))
  }

  gpuMemoryLimit(): Promise<number | undefined> {
    return Promise.resolve(undefined)
  }

  /** Looked at closely are only the applications that are big by resident size, which counts shared pages many times. */
  async biggestProcesses(limit: number, except: ReadonlySet<number> = new Set()): Promise<readonly BigApplication[]> {
    const pids = (await allPids()).filter((pid) => !except.has(pid))
    const resident = (await Promise.all(pids.map(residentMemory))).filter((process) => process !== undefined)
    const promising = new Set(biggestApplications(resident, 2 * limit).map(({ name }) => name))
    const members = resident.filter(({ name }) => promising.has(name))
    const exact = await this.footprints(members.map(({ pid }) => pid))
    return biggestApplications(
      members.map((member) => ({ ...member, bytes: exact.get(member.pid) ?? 0 })),
      limit,
    )
  }

  async process(pid: number): Promise<ProcessFacts | undefined> {
    const stat = await livingStat(pid)
    return stat && factsOf(pid, stat)
  }

  async processGroup(groupId: number): Promise<readonly ProcessFacts[]> {
    const facts = await Promise.all((await groupPids(groupId)).map((pid) => this.process(pid)))
    return facts.filter((fact) => fact !== undefined)
  }

  async processes(): Promise<readonly ProcessFacts[]> {
    const facts = await Promise.all((await ownPids()).map((pid) => this.process(pid)))
    return facts.filter((fact) => fact !== undefined)
  }

  async workplaces(): Promise<readonly Workplace[]> {
    const places = await Promise.all((await ownPids()).map(workplaceOf))
    return places.filter((place) => place !== undefined)
  }

  async variableOf(pid: number, name: string): Promise<string | undefined> {
    return parseVariable((await readProc(`/proc/${pid}/environ`)) ?? '', name)
  }

  /** Read at once: no disk is behind it, and four round trips through the thread pool cost many times as much. */
  isRunning({ pid, startTime }: Pick<ProcessFacts, 'pid' | 'startTime'>): Promise<boolean> {
    try {
      const stat = parseStat(readFileSync(`/proc/${pid}/stat`, 'utf8'))
      return Promise.resolve(!isGone(stat) && stat.startTicks === startTime)
    } catch (error) {
      return isNotThere(error) ? Promise.resolve(false) : Promise.reject(unreadable(error))
    }
  }

  async bootId(): Promise<string> {
    const id = (await readProc('/proc/sys/kernel/random/boot_id'))?.trim()
    if (!id) throw new PlatformError('/proc/sys/kernel/random/boot_id does not say which boot this is.')
    return id
  }

  loginSession(): Promise<string | undefined> {
    return Promise.resolve(undefined)
  }

  /** The leader first: it is nearly always the one, and spares looking through every process for the rest of its group. */
  async portListeners(port: number, groupId: number): Promise<PortListeners> {
    const inodes = await listeningInodes(port)
    if (inodes.size === 0) return { ours: [], others: [] }
    const isLeader = (await livingStat(groupId))?.groupId === groupId
    const leader = await heldBy(isLeader ? [groupId] : [], inodes)
    const ours = leader.found.size === inodes.size ? leader : await heldBy(await groupPids(groupId), inodes)
    const foreign = new Set([...inodes].filter((inode) => !ours.found.has(inode)))
    return { ours: ours.pids, others: foreign.size === 0 ? [] : await holdersOf(foreign) }
  }

  async establishedConnections(port: number): Promise<number> {
    return (await tcpTables()).reduce((sum, table) => sum + countEstablished(table, port), 0)
  }

  performanceCores(): Promise<number | undefined> {
    return Promise.resolve(undefined)
  }

  metal(): Promise<Metal> {
    return Promise.resolve({
      available: false,
      message: 'There is no Metal on Linux, so models are served by the CPU here.',
    })
  }

  interfaces(): readonly HostInterface[] {
    return hostInterfaces()
  }
}

const ownCgroup = async (): Promise<[membership: string, mounts: string]> => {
  const [membership, mounts] = await Promise.all([readProc('/proc/self/cgroup'), readProc('/proc/self/mountinfo')])
  return [membership ?? '', mounts ?? '']
}

async function cgroupBounds() {
  const bounds = await Promise.all(
    cgroupFolders(...(await ownCgroup())).map(async (level) => {
      const [limit, usage, stat] = await Promise.all(
        [level.files.limit, level.files.usage, 'memory.stat'].map((file) => readIfOffered(`${level.folder}/${file}`)),
      )
      return cgroupMemory(level, { limit, usage, stat })
    }),
  )
  return bounds.filter((bound) => bound !== undefined)
}

/** Pss counts a page that several processes share in parts, so that the sum over them is what they cost together. */
async function footprintOf(pid: number): Promise<number | undefined> {
  const proportional = parseProportionalBytes((await readProc(`/proc/${pid}/smaps_rollup`)) ?? '')
  return proportional ?? parseResidentBytes((await readProc(`/proc/${pid}/status`)) ?? '')
}

async function residentMemory(pid: number): Promise<ProcessMemory | undefined> {
  const status = await readProc(`/proc/${pid}/status`)
  const name = /^Name:\t(.*)$/m.exec(status ?? '')?.[1]
  return status === undefined || name === undefined ? undefined : { pid, name, bytes: parseResidentBytes(status) }
}

async function allPids(): Promise<number[]> {
  const entries = await readdir('/proc')
  return entries.map(Number).filter((pid) => Number.isInteger(pid) && pid > 0)
}

async function ownPids(): Promise<number[]> {
  const user = process.getuid?.()
  const pids = await allPids()
  const owners = await Promise.all(pids.map(async (pid) => (await unlessGone(stat(`/proc/${pid}`)))?.uid))
  return pids.filter((_, index) => owners[index] === user)
}

async function workplaceOf(pid: number): Promise<Workplace | undefined> {
  const [workingDirectory, output] = await Promise.all(
    ['cwd', 'fd/1'].map((link) => unlessGone(readlink(`/proc/${pid}/${link}`))),
  )
  if (workingDirectory === undefined) return undefined
  return { pid, workingDirectory, ...(output?.startsWith('/') === true && { output }) }
}

async function groupPids(groupId: number): Promise<number[]> {
  const pids = await allPids()
  const stats = await Promise.all(pids.map(livingStat))
  return pids.filter((_, index) => stats[index]?.groupId === groupId)
}

async function livingStat(pid: number): Promise<ProcStat | undefined> {
  const text = await readProc(`/proc/${pid}/stat`)
  if (text === undefined) return undefined
  const stat = parseStat(text)
  return isGone(stat) ? undefined : stat
}

async function factsOf(pid: number, stat: ProcStat): Promise<ProcessFacts | undefined> {
  const [commandLine, status] = await Promise.all([readProc(`/proc/${pid}/cmdline`), readProc(`/proc/${pid}/status`)])
  if (commandLine === undefined || status === undefined) return undefined
  return {
    pid,
    groupId: stat.groupId,
    startTime: stat.startTicks,
    commandLine: parseCommandLine(commandLine),
    residentBytes: parseResidentBytes(status),
    cpuMs: cpuMsOf(stat),
    suspended: isSuspended(stat),
  }
}

async function listeningInodes(port: number): Promise<Set<string>> {
  return new Set((await tcpTables()).flatMap((table) => parseListeningInodes(table, port)))
}

async function tcpTables(): Promise<string[]> {
  const tables = await Promise.all([readProc('/proc/net/tcp'), readProc('/proc/net/tcp6')])
  return tables.map((table) => table ?? '')
}

/** Which of these processes have which of the sockets open. */
async function heldBy(
  pids: readonly number[],
  inodes: ReadonlySet<string>,
): Promise<{ pids: number[]; found: ReadonlySet<string> }> {
  const held = await Promise.all(pids.map(async (pid) => ({ pid, inodes: await socketInodes(pid, inodes) })))
  const holders = held.filter((process) => process.inodes.length > 0)
  return { pids: holders.map(({ pid }) => pid), found: new Set(holders.flatMap((process) => process.inodes)) }
}

/** Those of `wanted` that the process has open; none where we may not look. */
async function socketInodes(pid: number, wanted: ReadonlySet<string>): Promise<string[]> {
  const directory = `/proc/${pid}/fd`
  const descriptors = (await unlessGone(readdir(directory))) ?? []
  const targets = await Promise.all(descriptors.map((descriptor) => unlessGone(readlink(`${directory}/${descriptor}`))))
  return targets.flatMap((target) => {
    const inode = target === undefined ? undefined : /^socket:\[(\d+)\]$/.exec(target)?.[1]
    return inode !== undefined && wanted.has(inode) ? [inode] : []
  })
}

/** Looks through every process: only asked when something is in the way. */
async function holdersOf(inodes: ReadonlySet<string>): Promise<PortHolder[]> {
  const holders = await Promise.all(
    (await allPids()).map(async (pid): Promise<PortHolder | undefined> => {
      if ((await socketInodes(pid, inodes)).length === 0) return undefined
      const command = await readProc(`/proc/${pid}/comm`)
      return command === undefined ? { pid } : { pid, command: command.trim() }
    }),
  )
  const known = holders.filter((holder) => holder !== undefined)
  return known.length > 0 ? known : [{}]
}

const readProc = (path: string): Promise<string | undefined> => unlessGone(readFile(path, 'utf8'))

/** Kernels are built without pressure stall information, or refuse it when it is switched off at boot. */
async function readIfOffered(path: string): Promise<string | undefined> {
  try {
    return await readProc(path)
  } catch (error) {
    if (error instanceof PlatformError && hasCode(error.cause, 'EOPNOTSUPP')) return undefined
    throw error
  }
}

const goneCodes = new Set<unknown>(['ENOENT', 'ESRCH', 'EACCES', 'EPERM'])

/** Processes come and go while we read, and other users' are closed to us: both are answers, not failures. */
async function unlessGone<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading
  } catch (error) {
    if (isNotThere(error)) return undefined
    throw unreadable(error)
  }
}

const isNotThere = (error: unknown): boolean => error instanceof Error && 'code' in error && goneCodes.has(error.code)

const unreadable = (error: unknown): PlatformError =>
  new PlatformError(`The process table could not be read: ${String(error)}`, { cause: error })
