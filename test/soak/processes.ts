import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { relative, resolve } from 'node:path'
import { isGone, parseListeningInodes, parseStat } from '../../src/agent-core/platform/proc-files.ts'
import { hasCode } from '../../src/agent-core/util/files.ts'
import { agents, isMlx, mlxServices, services, type AgentName, type ServiceName } from './faults.ts'
import type { SeenProcess } from './judge.ts'

export interface ServerProcess extends SeenProcess {
  readonly service: ServiceName
}

/** A process changes its command line at its start only: after so many looks it is looked at more seldom. */
const looksAtOthers = 20
/** Still, as another may have its number by now, or it was started on a machine that starves. */
const seldom = 20

/** See `SeenProcess.size`. */
const tokensOfSlot = 1_024
export const sizeOfSlots = (slots: number): number => slots * tokensOfSlot
export const slotsOfSize = (size: number): number => size / tokensOfSlot

type Known = Omit<ServerProcess, 'listens'> & { readonly startTicks: string }

/** The servers of a soak's agents, found by nothing but their command lines and working directories. Linux; some tenths of a millisecond a look. */
export class Processes {
  readonly #folder: string
  readonly #known = new Map<number, Known>()
  readonly #others = new Map<number, number>()
  readonly #listening = new Set<number>()

  /** In `folder` each agent has a folder of its name. */
  constructor(folder: string) {
    this.#folder = folder
  }

  look(): ServerProcess[] {
    const pids = readdirSync('/proc').map(Number).filter(Number.isInteger)
    this.#forget(new Set(pids))
    for (const pid of pids) this.#meet(pid)
    const living = [...this.#known.values()]
    this.#findListeners(living.filter(({ pid }) => !this.#listening.has(pid)))
    return living.map((known) => ({ ...known, listens: this.#listening.has(known.pid) }))
  }

  /** Those that are gone, also where another process has their number by now. */
  #forget(pids: ReadonlySet<number>): void {
    for (const { pid, startTicks } of this.#known.values()) {
      if (pids.has(pid) && livingSince(pid) === startTicks) continue
      this.#known.delete(pid)
      this.#listening.delete(pid)
    }
    for (const pid of this.#others.keys()) if (!pids.has(pid)) this.#others.delete(pid)
  }

  #meet(pid: number): void {
    const looks = this.#others.get(pid) ?? 0
    if (this.#known.has(pid)) return
    this.#others.set(pid, looks + 1)
    if (looks >= looksAtOthers && looks % seldom !== 0) return
    const workplace = unlessGone(() => readlinkSync(`/proc/${pid}/cwd`), '')
    const server = serverOf(readIfThere(`/proc/${pid}/cmdline`).split('\0'), { workplace, folder: this.#folder })
    const startTicks = server && livingSince(pid)
    if (!server || startTicks === undefined) return
    this.#known.set(pid, { pid, startTicks, ...server })
    this.#others.delete(pid)
  }

  /** A server that listens once does so until its end; the tables of a busy machine are long. */
  #findListeners(unproven: readonly { readonly pid: number; readonly port: number }[]): void {
    if (unproven.length === 0) return
    const sockets = ['tcp', 'tcp6'].map((table) => readIfThere(`/proc/net/${table}`)).join('\n')
    for (const { pid, port } of unproven) {
      const inodes = parseListeningInodes(sockets, port).map((inode) => `socket:[${inode}]`)
      if (inodes.length > 0 && openFiles(pid).some((file) => inodes.includes(file))) this.#listening.add(pid)
    }
  }
}

/** `folder`: of all agents. */
function serverOf(
  argv: readonly string[],
  { workplace, folder }: { readonly workplace: string; readonly folder: string },
): Omit<ServerProcess, 'pid' | 'listens'> | undefined {
  const value = (flag: string) => (argv.includes(flag) ? (argv[argv.indexOf(flag) + 1] ?? '') : '')
  const agent: AgentName | undefined = agents.find((name) => relative(folder, workplace).startsWith(`${name}/`))
  const model = resolve(workplace, value('--model'))
  const service = services.find((name) => value('--alias') === name) ?? mlxServiceOf(argv, workplace)
  if (agent === undefined || service === undefined) return undefined
  const size = isMlx(service) ? sizeOfSlots(Number(value('--max-slots') || 1)) : Number(value('--ctx-size'))
  return { agent, service, model, port: Number(value('--port')), size }
}

/** mlx-server takes no name: it works in the folder of its service, `NAMESPACE.NAME/RUN/work`. */
function mlxServiceOf(argv: readonly string[], workplace: string): ServiceName | undefined {
  if (!argv.includes('mlx-server') || !argv.includes('--model')) return undefined
  return mlxServices.find((name) => workplace.split('/').at(-3)?.endsWith(`.${name}`))
}

function openFiles(pid: number): string[] {
  return unlessGone(
    () => readdirSync(`/proc/${pid}/fd`).map((fd) => unlessGone(() => readlinkSync(`/proc/${pid}/fd/${fd}`), '')),
    [],
  )
}

/** Tells a process from a later one of its number; undefined where it is gone. */
function livingSince(pid: number): string | undefined {
  const stat = readIfThere(`/proc/${pid}/stat`)
  if (stat === '') return undefined
  const parsed = parseStat(stat)
  return isGone(parsed) ? undefined : parsed.startTicks
}

const readIfThere = (file: string): string => unlessGone(() => readFileSync(file, 'utf8'), '')

function unlessGone<T>(read: () => T, otherwise: T): T {
  try {
    return read()
  } catch (error) {
    if (hasCode(error, 'ENOENT') || hasCode(error, 'ESRCH') || hasCode(error, 'EACCES')) return otherwise
    throw error
  }
}
