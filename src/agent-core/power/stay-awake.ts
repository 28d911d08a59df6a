import { spawn, type ChildProcess } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'
import type { SleepPolicy } from '../../contract/settings-table.ts'
import type { Logger } from '../observability/logger.ts'
import { commandEnvironment } from '../platform/command.ts'
import type { Platform } from '../platform/platform.ts'
import type { AwakeProgram, PowerSupply } from '../platform/power-supply.ts'
import { cpuMsOf, isWorking, type CpuSample } from '../servers/process-group.ts'
import type { CountedServer } from '../servers/service-server.ts'
import { isOver, type ServerState } from '../servers/server-state.ts'
import type { Servers } from '../servers/servers.ts'

/** Keeps the system from going to sleep by itself until it is released. */
export interface AwakeHold {
  /** False once it has ended by itself. */
  readonly isHeld: boolean
  release(): void
}

/** How a hold ended that was not released. */
export type HowItEnded =
  { readonly error: Error } | { readonly code: number | null; readonly signal: NodeJS.Signals | null }

/** Begins a hold, or throws. The app holds by Electron, the command by a program of the system. */
export type HoldAwake = (onEnded: (how: HowItEnded) => void) => AwakeHold

export interface WorkSources {
  readonly servers: Pick<Servers, 'state' | 'counted'>
  readonly working: Pick<LatelyWorking, 'has' | 'keepOnly'>
  /** What a server said of its requests lately is not asked again. */
  readonly freshMs: number
}

export interface StayAwakeOptions extends Pick<WorkSources, 'working'> {
  readonly servers: Pick<Servers, 'state' | 'counted' | 'onChange'>
  readonly policy: () => SleepPolicy
  /** Also where it does not run on mains. */
  readonly mayOnBattery: () => boolean
  readonly source: () => PowerSupply['source'] | undefined
  /** Undefined where nothing can keep this system awake. */
  readonly hold: HoldAwake | undefined
  readonly log: Logger
  readonly onChange: () => void
}

/** No system goes to sleep within a minute of being used, so a request is seen in time. */
const lookEveryMs = 20_000
/** While held: it is released within five seconds of the last request. */
const heldLookEveryMs = 2_000
/** Where a hold cannot begin or ends by itself, it would do so again. */
const afterFailureMs = 60_000

/** Keeps the system from going to sleep while models load or requests run, or are in memory, as a person wants it. */
export class StayAwake implements AsyncDisposable {
  readonly #options: StayAwakeOptions
  readonly #leave: () => void
  #hold: AwakeHold | undefined
  /** On the monotonic clock. */
  #failedAt = -Infinity
  /** A failure was logged, and no hold has lasted since. */
  #isFailureLogged = false
  /** The present hold was still there at the next look. */
  #hasLasted = false
  #next: NodeJS.Timeout | undefined
  #look: Promise<void> | undefined
  #isAskedAgain = false
  #isEnded = false

  constructor(options: StayAwakeOptions) {
    this.#options = options
    this.#leave = options.servers.onChange((_key, { kind }) => {
      if (kind === 'starting' || kind === 'loading') this.review()
    })
    this.review()
  }

  get isKeptAwake(): boolean {
    return this.#hold?.isHeld === true
  }

  /** Pulling the plug would end the hold. */
  get dependsOnSupply(): boolean {
    return this.isKeptAwake && !this.#options.mayOnBattery()
  }

  /** The policy, the supply or what runs has changed. */
  review(): void {
    if (this.#isEnded) return
    this.#isAskedAgain = true
    this.#look ??= this.#lookWhileAsked().finally(() => (this.#look = undefined))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnded = true
    this.#leave()
    clearTimeout(this.#next)
    await this.#look
    this.#release()
  }

  async #lookWhileAsked(): Promise<void> {
    clearTimeout(this.#next)
    let waitMs = lookEveryMs
    while (this.#isAskedAgain && !this.#isEnded) {
      this.#isAskedAgain = false
      waitMs = await this.#lookOnce()
    }
    if (!this.#isEnded) this.#next = setTimeout(() => this.review(), waitMs).unref()
  }

  /** Resolves to the milliseconds until the next look. */
  async #lookOnce(): Promise<number> {
    const { log } = this.#options
    const isNeeded = await this.#isNeeded().catch((error: unknown) => {
      log.warn('could not tell whether models work', { error })
      return false
    })
    if (this.#hold?.isHeld === false) this.#failed()
    if (!isNeeded || this.#isEnded) {
      this.#release()
      return lookEveryMs
    }
    if (this.#hold) {
      // One that ends at once is not worth a line in the log.
      if (!this.#hasLasted) log.info('kept awake while models work')
      this.#hasLasted = true
      this.#isFailureLogged = false
      return heldLookEveryMs
    }
    const restMs = this.#failedAt + afterFailureMs - performance.now()
    if (restMs > 0) return restMs
    return this.#begin() ? heldLookEveryMs : afterFailureMs
  }

  #begin(): boolean {
    const { hold, onChange } = this.#options
    try {
      this.#hold = hold?.((how) => {
        this.#failed(how)
        this.review()
      })
    } catch (error) {
      this.#failed({ error })
      return false
    }
    this.#hasLasted = false
    onChange()
    return true
  }

  #failed(how: HowItEnded | { readonly error: unknown } | Record<string, never> = {}): void {
    this.#failedAt = performance.now()
    // Usual where nothing manages sleep, as on a Linux server.
    if (!this.#isFailureLogged) this.#options.log.info('not kept awake', how)
    this.#isFailureLogged = true
    this.#release()
  }

  async #isNeeded(): Promise<boolean> {
    const { policy, mayOnBattery, source, servers, working, hold } = this.#options
    if (!hold || policy() === 'never') return false
    // A supply that is not known may be a battery.
    if (!mayOnBattery() && source() !== 'mains') return false
    if (policy() === 'while-loaded') return [...servers.state().values()].some((state) => !isOver(state))
    return isWorkUnderWay({ servers, working, freshMs: (this.#hold ? heldLookEveryMs : lookEveryMs) / 2 })
  }

  #release(): void {
    const hold = this.#hold
    if (!hold) return
    this.#hold = undefined
    try {
      hold.release()
    } catch (error) {
      this.#options.log.warn('could not release what keeps the system awake', { error })
    }
    this.#options.onChange()
  }
}

/**
 * A process that keeps the system awake. Its input is a pipe that ends with this process, so it survives neither a release nor a crash. It
 * gets nothing of our environment, which may hold secrets.
 */
export function holdByProcess({ command, args }: AwakeProgram, onEnded: (how: HowItEnded) => void): AwakeHold {
  let isHeld = true
  const ended = (how: HowItEnded): void => {
    if (!isHeld) return
    isHeld = false
    onEnded(how)
  }
  const child: ChildProcess = spawn(command, args, { stdio: ['pipe', 'ignore', 'ignore'], env: commandEnvironment })
  child.on('error', (error) => ended({ error }))
  child.on('exit', (code, signal) => ended({ code, signal }))
  // Absent where no descriptor is left, which comes as an error of the child. The child may also end before its input does.
  child.stdin?.on('error', () => undefined)
  child.unref()
  return {
    get isHeld() {
      return isHeld
    },
    release: () => {
      isHeld = false
      child.stdin?.destroy()
      child.kill()
    },
  }
}

/** Whether a model loads, or a request runs. */
export async function isWorkUnderWay(sources: WorkSources): Promise<boolean> {
  const { servers, working } = sources
  if ([...servers.state().values()].some(isOnItsWay)) return true
  const counted = servers.counted()
  working.keepOnly(new Set(counted.map(({ run }) => run)))
  const answers = await Promise.all(counted.map((server) => hasRequests(server, sources)))
  return answers.includes(true)
}

/** A server that was found running may have nothing to do: it is asked first. */
const isOnItsWay = (state: ServerState): boolean =>
  state.kind === 'loading' ||
  (state.kind === 'starting' && state.unasked !== true) ||
  (state.kind === 'stopping' && state.drain !== undefined)

/**
 * Open connections stand for requests where a server is in the middle of a long batch. Where it does not say, or must not be asked, they do
 * so only while it works: a client may keep one open for hours.
 */
async function hasRequests(
  server: CountedServer,
  { working, freshMs }: Pick<WorkSources, 'working' | 'freshMs'>,
): Promise<boolean> {
  const { answer, requests } = await server.look({ freshMs, connections: true })
  if (requests === 0) return false
  return answer === 'counted' || answer === 'silent' || answer === 'cannotAsk' || working.has(server)
}

/** A server and its process group, whose number is the pid. */
export interface WatchedProcess {
  readonly run: string
  readonly pid: number | undefined
}

/** The GPU may compute one long batch while the processor only waits for it. */
const latelyMs = 10_000
/** Over a longer time a request that has just begun does not show, so the next moment is looked at as well. */
const longestSampleMs = 5_000
const sampleMs = 1_000

/** Which servers used the processor lately. Where a server does not count its requests, an open connection alone says little. */
export class LatelyWorking {
  readonly #processGroup: Platform['processGroup']
  readonly #now: () => number
  readonly #samples = new Map<string, CpuSample>()
  readonly #workedAt = new Map<string, number>()

  /** `now`: the monotonic clock. */
  constructor(processGroup: Platform['processGroup'], now = () => performance.now()) {
    this.#processGroup = processGroup
    this.#now = now
  }

  /** True where the system does not tell processor time. Throws PlatformError. */
  async has(server: WatchedProcess): Promise<boolean> {
    const { run } = server
    const before = this.#samples.get(run)
    const first = await this.#sample(server)
    if (!first) return true
    // Too soon to tell: the earlier sample is compared with the next one.
    if (before && first.at - before.at < sampleMs) this.#samples.set(run, before)
    let worked = before !== undefined && isWorking(before, first)
    if (!worked && (before === undefined || first.at - before.at > longestSampleMs)) {
      await delay(sampleMs, undefined, { ref: false })
      const second = await this.#sample(server)
      worked = second !== undefined && isWorking(first, second)
    }
    if (worked) this.#workedAt.set(run, this.#now())
    return this.#now() - (this.#workedAt.get(run) ?? -Infinity) < latelyMs
  }

  /** Forgets all other runs. */
  keepOnly(runs: ReadonlySet<string>): void {
    for (const kept of [this.#samples, this.#workedAt]) {
      for (const run of kept.keys()) if (!runs.has(run)) kept.delete(run)
    }
  }

  async #sample({ run, pid }: WatchedProcess): Promise<CpuSample | undefined> {
    // A daemon's model has no processor time of its own.
    const cpuMs = pid === undefined ? undefined : cpuMsOf(await this.#processGroup(pid))
    if (cpuMs === undefined) return undefined
    const sample = { cpuMs, at: this.#now() }
    this.#samples.set(run, sample)
    return sample
  }
}
