import { existsSync, statSync } from 'node:fs'
import { readlink } from 'node:fs/promises'
import PQueue from 'p-queue'
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
  parseListeningUsers,
  parseMeminfo,
  parsePressure,
  parseProportionalBytes,
  parseResidentBytes,
  parseStat,
  parseVariable,
  type ProcStat,
} from './proc-files.ts'
import { allPids, readIfOffered, readNow, readProc, unlessGone, unlessGoneNow } from './proc-reads.ts'
import { heldBy, holdersOf, listeningInodes, tcpTables } from './proc-sockets.ts'
import type { AwakeProgram, PowerSupply } from './power-supply.ts'
import { ProcFootprints } from './proc-footprints.ts'

/** A person may have more processes than this agent may open files. */
const readsAtOnce = 16
const inhibitor = '/usr/bin/systemd-inhibit'

/** Everything from /proc and /sys: no command is run. */
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
    const facts = await fewAtOnce(ownPids(), (pid) => this.process(pid))
    return facts.filter((fact) => fact !== undefined)
  }

  async workplaces(): Promise<readonly Workplace[]> {
    const places = await fewAtOnce(ownPids(), workplaceOf)
    return places.filter((place) => place !== undefined)
  }

  async variableOf(pid: number, name: string): Promise<string | undefined> {
    return parseVariable((await readProc(`/proc/${pid}/environ`)) ?? '', name)
  }

  isRunning({ pid, startTime }: Pick<ProcessFacts, 'pid' | 'startTime'>): Promise<boolean> {
    return Promise.try(() => livingStat(pid)?.startTicks === startTime)
  }

  powerSupply(): Promise<PowerSupply | undefined> {
    return Promise.resolve(undefined)
  }

  /** It holds for as long as the program that it runs, which ends with its input. */
  awakeProgram(): AwakeProgram | undefined {
    if (!existsSync(inhibitor)) return undefined
    const what = ['--what=idle', '--mode=block', '--who=metal-agent', '--why=Models load or answer requests']
    return { command: inhibitor, args: [...what, '/bin/cat'] }
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
  async portListeners(port: number, groupId: number, host?: string): Promise<PortListeners> {
    const inodes = await listeningInodes(port, host)
    if (inodes.size === 0) return { ours: [], others: [] }
    const isLeader = livingStat(groupId)?.groupId === groupId
    const leader = await heldBy(isLeader ? [groupId] : [], inodes)
    const ours = leader.found.size === inodes.size ? leader : await heldBy(groupPids(groupId), inodes)
    const foreign = new Set([...inodes].filter((inode) => !ours.found.has(inode)))
    return { ours: ours.pids, others: foreign.size === 0 ? [] : await holdersOf(foreign) }
  }

  async isListenerOwn(port: number, host: string): Promise<boolean | undefined> {
    const users = (await tcpTables()).flatMap((table) => parseListeningUsers(table, port, host))
    return users.length === 0 ? undefined : users.every((user) => user === process.geteuid?.())
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
      isNotice: true,
      message: 'There is no Metal on Linux, so models are served by the CPU here.',
    })
  }

  /** Those of Linux judge by port and address. */
  firewall(): Promise<undefined> {
    return Promise.resolve(undefined)
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

const fewAtOnce = <T>(pids: readonly number[], look: (pid: number) => Promise<T>): Promise<T[]> =>
  new PQueue({ concurrency: readsAtOnce }).addAll(pids.map((pid) => () => look(pid)))

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
