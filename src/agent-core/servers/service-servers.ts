import type { CountersReading } from './activity.ts'
import type { Failure } from './back-off.ts'
import type { ExitWatch } from './exit-watch.ts'
import type { GeneralRules, LaunchRules, ServerLaunch } from './launch.ts'
import type { LedgerEntry } from './ledger.ts'
import { logState } from './log-state.ts'
import { runFolder, runOf, type RunFolder, type ServerFolders } from './run-folder.ts'
import { needIn, type CountedServer, type ServerNeed, type Slot } from './server-slot.ts'
import {
  ServerProcess,
  type ServerOrigin,
  type ServerProcessOptions,
  type StopOptions,
  type StopReport,
} from './server-process.ts'
import { isOver, type Exited, type ServerRole, type ServerState } from './server-state.ts'

/** What the ledger says of a server that is provably the same as when it was noted. */
export type AdoptableServer = LedgerEntry & { readonly process: NonNullable<LedgerEntry['process']> }

export interface ServiceServersOptions extends Pick<
  ServerProcessOptions,
  'key' | 'runs' | 'ledger' | 'ports' | 'platform' | 'probe' | 'liveness' | 'log' | 'now' | 'onProbe'
> {
  readonly folders: ServerFolders
  /** Of servers that an earlier agent started. */
  readonly exits: ExitWatch
  readonly onCounters: (server: CountedServer, reading: CountersReading) => void
  readonly onFailure: (servedMs: number) => Failure
  /** In the turn of the change; `role` is that of the server whose state it is. */
  readonly onState: (state: ServerState, role: ServerRole) => void
}

interface Beginning {
  readonly role: ServerRole
  readonly digest: string
  readonly rules: LaunchRules
  readonly origin: ServerOrigin
  readonly need: ServerNeed
  readonly files: readonly string[] | undefined
}

/**
 * How long no request may have come to a server whose successor is published before it ends: by then every node of the cluster knows the
 * new port. kube-proxy may take a second to tell the kernel (`--iptables-min-sync-period`), and the news must reach it first.
 */
const flipSettleMs = 3_000

/** The servers of one InferenceService: one, and for the moment in which one takes over from another, two. */
export class ServiceServers {
  readonly #options: ServiceServersOptions
  #current: Slot | undefined
  /** Kept when it failed, until it is dropped or another is started. */
  #successor: Slot | undefined
  /** Until nothing of it is left. */
  #retiring: Slot | undefined
  #starts = 0
  #lastFailure: Exited | undefined

  constructor(options: ServiceServersOptions) {
    this.#options = options
  }

  /** Throws while something of an earlier process is left. */
  start(launch: ServerLaunch): void {
    this.refuseWhileAlive()
    this.#successor = undefined
    this.#launch('current', launch, undefined)
  }

  /** Throws where there is no present server, or more than that. */
  startBeside(launch: ServerLaunch): void {
    const { key } = this.#options
    const beside = this.#current?.process.folder
    if (!this.#current || !beside || isOver(this.#current.process.state))
      throw new Error(`${key} has no server to start another beside.`)
    for (const other of [this.#successor, this.#retiring]) {
      if (other && !isOver(other.process.state)) throw new Error(`${key} has two servers already.`)
    }
    this.#launch('successor', launch, beside)
  }

  /** Throws where there is no successor. */
  promote(): void {
    const { key, ledger, log } = this.#options
    const [successor, current] = [this.#successor, this.#current]
    if (!successor || isOver(successor.process.state)) throw new Error(`${key} has no successor.`)
    this.#current = successor
    this.#successor = undefined
    const [next, last] = [successor.process.folder, current?.process.folder]
    ledger.cast({ ...(next && { [next.name]: 'current' }), ...(last && { [last.name]: 'retiring' }) })
    log.info('successor takes over', { service: key })
    if (current && !isOver(current.process.state)) this.#retire(current)
  }

  async dropSuccessor(): Promise<StopReport> {
    if (!this.#successor) return { stopped: true }
    const { process } = this.#successor
    if (!isOver(process.state)) return await process.stop({ drainMs: 0 })
    this.#successor = undefined
    return { stopped: true }
  }

  adopt(entry: AdoptableServer, rules: GeneralRules): void {
    const { key, exits, folders, log } = this.#options
    const { role = 'current', digest, port, outputOffset, readySince } = entry
    const { executable, argv, workingDirectory, sleepsWhenIdle } = entry
    const { pid, startTime } = entry.process
    const process = { pid, startTime, exited: exits.exitOf({ pid, startTime }) }
    const ready = readySince === undefined ? {} : { readySince: Date.parse(readySince) }
    const command = argv && [executable, ...argv]
    log.info('adopted server', { service: key, pid, port, role })
    const folder = runFolder(folders, runOf(workingDirectory))
    const slot = this.#begin({
      role,
      digest,
      rules: { ...rules, executable, sleepsWhenIdle },
      origin: { kind: 'found', server: { process, port, outputOffset, command, ...ready }, folder },
      need: needIn(entry),
      files: entry.files,
    })
    if (role === 'retiring') this.#retire(slot)
  }

  /** They run on without this agent. */
  letGo(): void {
    for (const { process } of this.#slots()) process.letGo()
  }

  async stop(options: StopOptions): Promise<StopReport> {
    const reports = await Promise.all(this.#slots().map(({ process }) => process.stop(options)))
    return reports.find(({ stopped }) => !stopped) ?? { stopped: true }
  }

  skipDrain(): boolean {
    return this.#slots()
      .map(({ process }) => process.skipDrain())
      .includes(true)
  }

  /** Whatever its role, the server with this process is ended at once for the memory that it takes. */
  endForMemory(pid: number, why: string): void {
    const slot = this.#slots().find(({ process }) => 'pid' in process.state && process.state.pid === pid)
    slot?.process.endForMemory(why)
  }

  state(role: ServerRole): ServerState | undefined {
    return this.#slot(role)?.process.state
  }

  digest(role: ServerRole): string | undefined {
    return this.#slot(role)?.digest
  }

  need(role: ServerRole): ServerNeed {
    return this.#slot(role)?.need ?? { needBytes: undefined, mappedBytes: 0 }
  }

  /** As the present server was started; undefined where that is not known. */
  get command(): readonly string[] | undefined {
    return this.#current?.process.command
  }

  /** Of the present server. */
  get logFile(): string | undefined {
    return this.#current?.process.folder?.logFile
  }

  /** The run that was begun last. */
  get newestRun(): RunFolder | undefined {
    return this.#successor?.process.folder ?? this.#current?.process.folder
  }

  /** Those with counters to read. */
  counted(): CountedServer[] {
    return this.#slots().flatMap((slot) => {
      const { folder, state } = slot.process
      if (folder === undefined || (state.kind !== 'ready' && state.kind !== 'stopping')) return []
      const { pid, port } = state
      if (pid === undefined || port === undefined) return []
      const { digest, sleepsWhenIdle, isFound } = slot
      const isWell = state.kind === 'ready' && state.healthy
      const role = this.#roleOf(slot)
      return [{ key: this.#options.key, role, run: folder.name, pid, port, digest, sleepsWhenIdle, isFound, isWell }]
    })
  }

  /** What each server may load again; one that finishes its last requests loads nothing. */
  get files(): (readonly string[] | undefined)[] {
    return this.#slots()
      .filter((slot) => slot !== this.#retiring && !isOver(slot.process.state))
      .map(({ files }) => files)
  }

  get running(): number {
    return this.#slots().filter(({ process }) => !isOver(process.state)).length
  }

  get restarts(): number {
    return Math.max(0, this.#starts - 1)
  }

  get lastFailure(): Exited | undefined {
    return this.#lastFailure
  }

  refuseWhileAlive(): void {
    const left = this.#slots().find(({ process }) => !isOver(process.state))
    if (!left) return
    const { kind } = left.process.state
    throw new Error(`${this.#options.key} still has a server (${kind}): stop it and wait until it is over.`)
  }

  #slots(): Slot[] {
    return [this.#current, this.#successor, this.#retiring].filter((slot) => slot !== undefined)
  }

  #slot(role: ServerRole): Slot | undefined {
    switch (role) {
      case 'current':
        return this.#current
      case 'successor':
        return this.#successor
      case 'retiring':
        return this.#retiring
    }
  }

  #roleOf(slot: Slot): ServerRole {
    return slot === this.#successor ? 'successor' : slot === this.#retiring ? 'retiring' : 'current'
  }

  #launch(role: 'current' | 'successor', launch: ServerLaunch, beside: RunFolder | undefined): void {
    const origin = { kind: 'launch', launch, beside } as const
    this.#begin({ role, digest: launch.digest, rules: launch, origin, need: needIn(launch), files: launch.files })
  }

  #begin({ role, digest, rules, origin, need, files }: Beginning): Slot {
    const process = new ServerProcess({
      ...this.#options,
      role: () => this.#roleOf(slot),
      origin,
      launch: rules,
      onCounters: (reading) => {
        const server = this.counted().find(({ run }) => run === process.folder?.name)
        if (server) this.#options.onCounters(server, reading)
      },
      onState: (state) => this.#changed(slot, state),
    })
    const { sleepsWhenIdle = false } = rules
    const slot: Slot = { process, digest, need, files, sleepsWhenIdle, isFound: origin.kind === 'found' }
    if (role === 'current') this.#current = slot
    else if (role === 'successor') this.#successor = slot
    else this.#retiring = slot
    this.#starts += 1
    process.start()
    return slot
  }

  /** Clients that still know the old port are answered until no request comes any more. Its state tells its end. */
  #retire(slot: Slot): void {
    this.#retiring = slot
    void slot.process.stop({ quietMs: flipSettleMs })
  }

  #changed(slot: Slot, state: ServerState): void {
    const { key, log, onState } = this.#options
    const role = this.#roleOf(slot)
    logState(log, key, state)
    this.#note(slot.process.folder, state)
    if (state.kind === 'exited' && state.settled && state.cause !== 'stopped') this.#lastFailure = state
    if (role === 'retiring' && isOver(state)) this.#retiring = undefined
    if (role === 'successor' && wasStopped(state)) this.#successor = undefined
    onState(state, role)
  }

  #note(folder: RunFolder | undefined, state: ServerState): void {
    if (!folder) return
    const { ledger } = this.#options
    if (isOver(state)) ledger.forget(folder.name)
    if (state.kind === 'ready' && state.healthy) void ledger.ready(folder.name, state.pid, state.readySince)
  }
}

const wasStopped = (state: ServerState): boolean =>
  state.kind === 'exited' && state.settled && state.cause === 'stopped'
