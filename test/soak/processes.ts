import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { relative, resolve } from 'node:path'
import { isGone, parseListeningInodes, parseStat } from '../../src/agent-core/platform/proc-files.ts'
import { hasCode } from '../../src/agent-core/util/files.ts'
import { agents, services, type AgentName, type ServiceName } from './faults.ts'
import type { SeenProcess } from './judge.ts'

export interface ServerProcess extends SeenProcess {
  readonly service: ServiceName
}

/** A process changes its command line at its start only, and is not looked at again for long after. */
const looksAtOthers = 20

/** The servers of a soak's agents, found by their command lines alone. Linux; some tenths of a millisecond a look. */
export class Processes {
  readonly #folder: string
  readonly #known = new Map<number, Omit<ServerProcess, 'listens'>>()
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
    const living = [...this.#known.values()].filter(({ pid }) => {
      const stat = readIfThere(`/proc/${pid}/stat`)
      return stat !== '' && !isGone(parseStat(stat))
    })
    this.#findListeners(living.filter(({ pid }) => !this.#listening.has(pid)))
    return living.map((known) => ({ ...known, listens: this.#listening.has(known.pid) }))
  }

  #forget(pids: ReadonlySet<number>): void {
    for (const pid of this.#known.keys()) if (!pids.has(pid)) this.#known.delete(pid)
    for (const pid of this.#listening) if (!pids.has(pid)) this.#listening.delete(pid)
    for (const pid of this.#others.keys()) if (!pids.has(pid)) this.#others.delete(pid)
  }

  #meet(pid: number): void {
    const looks = this.#others.get(pid) ?? 0
    if (this.#known.has(pid) || looks >= looksAtOthers) return
    const workplace = unlessGone(() => readlinkSync(`/proc/${pid}/cwd`), '')
    const server = serverOf(readIfThere(`/proc/${pid}/cmdline`).split('\0'), { workplace, folder: this.#folder })
    if (server) this.#known.set(pid, { pid, ...server })
    else this.#others.set(pid, looks + 1)
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
  const value = (flag: string) => argv[argv.indexOf(flag) + 1] ?? ''
  const agent: AgentName | undefined = agents.find((name) => relative(folder, workplace).startsWith(`${name}/`))
  const model = resolve(workplace, value('--model'))
  const service = services.find((name) => value('--alias') === name)
  if (agent === undefined || service === undefined) return undefined
  return { agent, service, model, port: Number(value('--port')), contextSize: Number(value('--ctx-size')) }
}

function openFiles(pid: number): string[] {
  return unlessGone(
    () => readdirSync(`/proc/${pid}/fd`).map((fd) => unlessGone(() => readlinkSync(`/proc/${pid}/fd/${fd}`), '')),
    [],
  )
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
