import { readdirSync, readFileSync, statSync } from 'node:fs'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { hasCode } from '../support/files.ts'
import { biggestApplications, type ProcessMemory } from './applications.ts'
import { cgroupFolders, cgroupMemory, cgroupPressureFile, type CgroupFolder } from './cgroup.ts'
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
import { ProcFootprints } from './proc-footprints.ts'

/** Everything from /proc: no command is run. */
export class LinuxPlatform implements Platform {
  readonly name = 'linux'
  #cgroup: OwnCgroup | undefined
  readonly #footprints = new ProcFootprints({
    mark: (pid) => readNow(`/proc/${pid}/statm`),
    bytes: footprintOf,
    now: () => performance.now(),
  })

  /** As much as the machine has, or as our cgroup and those above it leave us. */
  memory(): Promise<MemoryFigures> {
    return Promise.try(() => {
      const machine = parseMeminfo(readNow('/proc/meminfo') ?? '')
      if (!machine) throw new PlatformError('/proc/meminfo does not say how much memory there is.')
      const bounds = this.#ownCgroup().folders.flatMap((level) => boundOf(level) ?? [])
      return {
        ...machine,
        totalBytes: Math.min(machine.totalBytes, ...bounds.map(({ limitBytes }) => limitBytes)),
        availableBytes: Math.min(machine.availableBytes, ...bounds.map(({ availableBytes }) => availableBytes)),
      }
    })
  }

  /** From the pressure stall information of the machine and of our cgroup: the worse counts. */
  memoryPressureLevel(): Promise<KernelPressure | undefined> {
    return Promise.try(() => {
      const { pressureFile: own } = this.#ownCgroup()
      const texts = ['/proc/pressure/memory', ...(own === undefined ? [] : [own])].map(readIfOffered)
      const levels = texts.flatMap((text) => (text === undefined ? [] : (parsePressure(text) ?? [])))
      return (['critical', 'warning', 'normal'] as const).find((level) => levels.includes(level))
    })
  }

  /** Mounts are many, and say something else for us only where we are moved to another cgroup. */
  #ownCgroup(): OwnCgroup {
    const membership = readNow('/proc/self/cgroup') ?? ''
    if (this.#cgroup?.membership !== membership) {
      const mounts = readNow('/proc/self/mountinfo') ?? ''
      const [folders, pressureFile] = [cgroupFolders(membership, mounts), cgroupPressureFile(membership, mounts)]
      this.#cgroup = { membership, folders, pressureFile }
    }
    return this.#cgroup
  }

  kernelFreeFraction(): Promise<number | undefined> {
    return Promise.resolve(undefined)
  }

  footprints(pids: readonly number[]): Promise<ReadonlyMap<number, number>> {
    return this.#footprints.of(pids)
  }

  gpuMemoryLimit(): Promise<number | undefined> {
    return Promise.resolve(undefined)
  }

  /** Looked at closely are only the applications that are big by resident size, which counts shared pages many times. */
  async biggestProcesses(limit: number, except: ReadonlySet<number> = new Set()): Promise<readonly BigApplication[]> {
    const pids = allPids().filter((pid) => !except.has(pid))
    const resident = pids.map(residentMemory).filter((process) => process !== undefined)
    const promising = new Set(biggestApplications(resident, 2 * limit).map(({ name }) => name))
    const members = resident.filter(({ name }) => promising.has(name))
    const exact = members.map(async (member) => ({ ...member, bytes: (await footprintOf(member.pid)) ?? 0 }))
    return biggestApplications(await Promise.all(exact), limit)
  }

  async process(pid: number): Promise<ProcessFacts | undefined> {
    const stat = livingStat(pid)
    return stat && (await factsOf(pid, stat))
  }

  async processGroup(groupId: number): Promise<readonly ProcessFacts[]> {
    const facts = await Promise.all(groupPids(groupId).map((pid) => this.process(pid)))
    return facts.filter((fact) => fact !== undefined)
  }

  membersOf(groupIds: ReadonlySet<number>): Promise<ReadonlyMap<number, readonly number[]>> {
    return Promise.try(() => {
      const found = allPids().flatMap((pid) => {
        const groupId = livingStat(pid)?.groupId
        return groupId !== undefined && groupIds.has(groupId) ? [{ pid, groupId }] : []
      })
      return pidsByGroup(found)
    })
  }

  async processes(): Promise<readonly ProcessFacts[]> {
    const facts = await Promise.all(ownPids().map((pid) => this.process(pid)))
    return facts.filter((fact) => fact !== undefined)
  }

  async workplaces(): Promise<readonly Workplace[]> {
    const places = await Promise.all(ownPids().map(workplaceOf))
    return places.filter((place) => place !== undefined)
  }

  async variableOf(pid: number, name: string): Promise<string | undefined> {
    return parseVariable((await readProc(`/proc/${pid}/environ`)) ?? '', name)
  }

  isRunning({ pid, startTime }: Pick<ProcessFacts, 'pid' | 'startTime'>): Promise<boolean> {
    return Promise.try(() => livingStat(pid)?.startTicks === startTime)
  }

  bootId(): Promise<string> {
    return Promise.try(() => {
      const id = readNow('/proc/sys/kernel/random/boot_id')?.trim()
      if (!id) throw new PlatformError('/proc/sys/kernel/random/boot_id does not say which boot this is.')
      return id
    })
  }

  loginSession(): Promise<string | undefined> {
    return Promise.resolve(undefined)
  }

  /** The leader first: it is nearly always the listener, which spares looking through every process for the rest of its group. */
  async portListeners(port: number, groupId: number): Promise<PortListeners> {
    const inodes = await listeningInodes(port)
    if (inodes.size === 0) return { ours: [], others: [] }
    const isLeader = livingStat(groupId)?.groupId === groupId
    const leader = await heldBy(isLeader ? [groupId] : [], inodes)
    const ours = leader.found.size === inodes.size ? leader : await heldBy(groupPids(groupId), inodes)
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

interface OwnCgroup {
  /** What /proc/self/cgroup says. */
  readonly membership: string
  readonly folders: readonly CgroupFolder[]
  readonly pressureFile: string | undefined
}

function boundOf(level: CgroupFolder) {
  const [limit, usage, stat] = [level.files.limit, level.files.usage, 'memory.stat'].map((file) =>
    readIfOffered(`${level.folder}/${file}`),
  )
  return cgroupMemory(level, { limit, usage, stat })
}

/** Pss counts a page that several processes share in parts, so that the sum over them is what they cost together. */
async function footprintOf(pid: number): Promise<number | undefined> {
  const proportional = parseProportionalBytes((await readProc(`/proc/${pid}/smaps_rollup`)) ?? '')
  return proportional ?? parseResidentBytes((await readProc(`/proc/${pid}/status`)) ?? '')
}

function residentMemory(pid: number): ProcessMemory | undefined {
  const status = readNow(`/proc/${pid}/status`)
  const name = /^Name:\t(.*)$/m.exec(status ?? '')?.[1]
  return status === undefined || name === undefined ? undefined : { pid, name, bytes: parseResidentBytes(status) }
}

const allPids = (): number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid > 0)

function ownPids(): number[] {
  const user = process.getuid?.()
  return allPids().filter((pid) => unlessGoneNow(() => statSync(`/proc/${pid}`))?.uid === user)
}

async function workplaceOf(pid: number): Promise<Workplace | undefined> {
  const [workingDirectory, output] = await Promise.all(
    ['cwd', 'fd/1'].map((link) => unlessGone(readlink(`/proc/${pid}/${link}`))),
  )
  if (workingDirectory === undefined) return undefined
  return { pid, workingDirectory, ...(output?.startsWith('/') === true && { output }) }
}

const groupPids = (groupId: number): number[] => allPids().filter((pid) => livingStat(pid)?.groupId === groupId)

function livingStat(pid: number): ProcStat | undefined {
  const text = readNow(`/proc/${pid}/stat`)
  const stat = text === undefined ? undefined : parseStat(text)
  return stat && !isGone(stat) ? stat : undefined
}

async function factsOf(pid: number, stat: ProcStat): Promise<ProcessFacts | undefined> {
  const [status, commandLine] = [readNow(`/proc/${pid}/status`), await readProc(`/proc/${pid}/cmdline`)]
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
    allPids().map(async (pid): Promise<PortHolder | undefined> => {
      if ((await socketInodes(pid, inodes)).length === 0) return undefined
      const command = readNow(`/proc/${pid}/comm`)
      return command === undefined ? { pid } : { pid, command: command.trim() }
    }),
  )
  const known = holders.filter((holder) => holder !== undefined)
  return known.length > 0 ? known : [{}]
}

/** For files that the kernel may take long to make: a process that is busy with its own memory holds up every reader of its figures. */
const readProc = (path: string): Promise<string | undefined> => unlessGone(readFile(path, 'utf8'))

/** For everything else: no disk is behind it, and the round trips through the thread pool cost many times as much. */
const readNow = (path: string): string | undefined => unlessGoneNow(() => readFileSync(path, 'utf8'))

/** Kernels are built without pressure stall information, or refuse it when it is switched off at boot. */
function readIfOffered(path: string): string | undefined {
  try {
    return readNow(path)
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

/** As {@link unlessGone}. */
function unlessGoneNow<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (isNotThere(error)) return undefined
    throw unreadable(error)
  }
}

const isNotThere = (error: unknown): boolean => error instanceof Error && 'code' in error && goneCodes.has(error.code)

const unreadable = (error: unknown): PlatformError =>
  new PlatformError(`The process table could not be read: ${String(error)}`, { cause: error })
