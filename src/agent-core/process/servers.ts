import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import { afterCrash, noCrashes, retryDelayMs, type CrashHistory } from './back-off.ts'
import { probeHealth, type HealthProbe } from './health-probe.ts'
import type { ServerLaunch } from './launch.ts'
import { livenessTimings, type LivenessTimings } from './liveness.ts'
import { Ports } from './ports.ts'
import { ServerProcess, type StopReport } from './server-process.ts'
import { isOver, type ServerState } from './server-state.ts'

export interface ServersOptions {
  readonly platform: Pick<Platform, 'processGroup' | 'portListeners'>
  readonly log: Logger
  readonly now?: () => number
  /** [0, 1) */
  readonly random?: () => number
  readonly liveness?: LivenessTimings
  readonly probe?: HealthProbe
}

export interface StopOptions {
  /** Between SIGTERM and SIGKILL; without it the launch's own. */
  readonly graceMs?: number
}

export type ServerListener = (key: string, state: ServerState) => void

/** Every server of this agent, by the key of its InferenceService. Restarts nothing by itself: `retryAt` says when it may be tried again. */
export class Servers implements AsyncDisposable {
  readonly #options: Required<ServersOptions>
  readonly #ports: Ports
  readonly #records = new Map<string, ServerRecord>()
  readonly #listeners = new Set<ServerListener>()

  constructor(options: ServersOptions) {
    this.#options = { now: Date.now, random: Math.random, liveness: livenessTimings, probe: probeHealth, ...options }
    this.#ports = new Ports({ holders: async (port) => (await options.platform.portListeners(port, noGroup)).others })
  }

  /** Everything from here on is told by `get` and `onChange`. Throws while something of the previous process is left. */
  start(key: string, launch: ServerLaunch): void {
    const record = this.#records.get(key)
    if (record && !isOver(record.process.state)) {
      throw new Error(`${key} still has a server (${record.process.state.kind}): stop it and wait until it is over.`)
    }
    const { platform, probe, liveness, log, now } = this.#options
    const process = new ServerProcess({
      launch,
      ports: this.#ports,
      platform,
      probe,
      liveness,
      log,
      now,
      onFailure: (servedMs) => this.#failed(key, servedMs),
      onState: (state) => this.#changed(key, state),
    })
    this.#records.set(key, { process, starts: (record?.starts ?? 0) + 1, crashes: record?.crashes ?? noCrashes })
    process.start()
  }

  /** Resolves when nothing of it is left, or with what is. Also right where there is no server. */
  async stop(key: string, { graceMs }: StopOptions = {}): Promise<StopReport> {
    return (await this.#records.get(key)?.process.stop(graceMs)) ?? { stopped: true }
  }

  /** Requests in flight are waited for no longer; false where nothing waits for them. */
  skipDrain(key: string): boolean {
    return this.#records.get(key)?.process.skipDrain() ?? false
  }

  /** All at the same time. */
  async stopAll(options: StopOptions = {}): Promise<ReadonlyMap<string, StopReport>> {
    const reports = [...this.#records.keys()].map(async (key) => [key, await this.stop(key, options)] as const)
    return new Map(await Promise.all(reports))
  }

  get(key: string): ServerState | undefined {
    return this.#records.get(key)?.process.state
  }

  /** How often it was started again since it is known. */
  restarts(key: string): number {
    return Math.max(0, (this.#records.get(key)?.starts ?? 0) - 1)
  }

  state(): ReadonlyMap<string, ServerState> {
    return new Map([...this.#records].map(([key, { process }]) => [key, process.state]))
  }

  /** What failed is no measure for what comes now: the next failure counts as the first. */
  clearBackOff(key: string): void {
    const record = this.#records.get(key)
    if (record) record.crashes = noCrashes
  }

  /** Throws while something of it is left. */
  forget(key: string): void {
    const record = this.#records.get(key)
    if (record && !isOver(record.process.state)) throw new Error(`${key} still has a server: stop it first.`)
    this.#records.delete(key)
  }

  /** Calls on every change, in the turn in which it is known; an exit in the one in which it was reaped. */
  onChange(listener: ServerListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopAll()
  }

  #failed(key: string, servedMs: number) {
    const { now, random } = this.#options
    const record = this.#records.get(key)
    const crashes = afterCrash(record?.crashes ?? noCrashes, servedMs)
    if (record) record.crashes = crashes
    return { failures: crashes.failures, retryAt: now() + retryDelayMs(crashes, random) }
  }

  #changed(key: string, state: ServerState): void {
    this.#logChange(key, state)
    for (const listener of this.#listeners) {
      try {
        listener(key, state)
      } catch (error) {
        this.#options.log.error('a listener for servers failed', { service: key, error })
      }
    }
  }

  #logChange(key: string, state: ServerState): void {
    const { log } = this.#options
    switch (state.kind) {
      case 'starting':
        if (state.pid !== undefined) log.debug('started server', { service: key, pid: state.pid, port: state.port })
        return
      case 'loading':
        log.debug('server is loading', { service: key, pid: state.pid, port: state.port })
        return
      case 'ready':
        if (!state.healthy) log.warn('server does not answer', { service: key, pid: state.pid, port: state.port })
        else log.debug('server is ready', { service: key, pid: state.pid, port: state.port })
        return
      case 'stopping':
        log.info('stopping server', { service: key, pid: state.pid, port: state.port, cause: state.cause })
        return
      case 'failedToSpawn':
        log.warn('server could not be started', { service: key, reason: state.message })
        return
      case 'exited': {
        if (!state.settled) return
        const { code, signal, message: reason, cause, left } = state
        log[cause === 'stopped' && left === undefined ? 'info' : 'warn']('server exited', {
          service: key,
          code,
          signal,
          reason,
          left,
        })
      }
    }
  }
}

/** Whoever listens is somebody else: no group has this number. */
const noGroup = -1

interface ServerRecord {
  readonly process: ServerProcess
  readonly starts: number
  crashes: CrashHistory
}
