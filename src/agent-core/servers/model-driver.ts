import { formatBytes, formatSpan } from '../../contract/format.ts'
import type { Logger } from '../observability/logger.ts'
import type { Platform, PortListeners, ProcessFacts } from '../platform/platform.ts'
import { messageOf } from '../util/message-of.ts'
import { pause } from '../util/pause.ts'
import { wallTimeOf } from '../util/steady-clock.ts'
import { DaemonError, type Daemon, type DaemonContent, type InMemory } from './daemon.ts'
import type { LivenessTimings } from './liveness.ts'
import type { RunOutput } from './output.ts'
import { Poller } from './poller.ts'
import type { Activity, ProbeAnswer } from './probe.ts'
import type { StartFigures } from './readiness.ts'
import type { DaemonEngine } from './served-model.ts'
import type { Account, Driver, Ending, Settled } from './driver.ts'
import type { Exit, Life, ServerState } from './server-state.ts'

/** The daemon of a model, and who else needs what there. */
export interface ModelSurroundings {
  readonly daemon: Daemon
  /** Where and by which name it is expected there. */
  readonly engine: DaemonEngine
  /** Names that other servers of this agent need in the daemon's memory. */
  readonly neededByOthers: () => ReadonlySet<string>
  /** Its requests in flight at the gateway, through which all of them come that are for the service; undefined where it does not say. */
  readonly atGateway: () => Promise<number | undefined>
}

interface ModelDriverOptions extends ModelSurroundings {
  readonly life: Life
  readonly port: number
  /** What is to be loaded; undefined where an earlier agent had it loaded. */
  readonly content: DaemonContent | undefined
  readonly output: RunOutput
  readonly platform: Pick<Platform, 'establishedConnections'>
  readonly liveness: LivenessTimings
  readonly log: Logger
  readonly now: () => number
  /** By which name requests have to ask for it, where that is another. */
  readonly onCalled: (engine: DaemonEngine) => void
  /** The daemon asks for another key than before. */
  readonly onKey: () => void
}

/** A model that the daemon itself drops is withdrawn within this time and a question more. */
const lookEveryMs = 5_000
/** While it leaves memory. */
const hurriedLookMs = 250
const looksPerUnload = 20

/**
 * A model in a daemon's memory, seen by a run. It is over once it was seen to be out of memory, or nobody, or another program, listens where the
 * daemon was; as long as the daemon does not say, it may be there.
 */
export class ModelDriver implements Driver {
  readonly life: Life
  readonly poller: Poller
  readonly exited: Promise<Exit>
  readonly timings: LivenessTimings
  readonly isLauncher = false
  readonly finishesLate = true
  readonly trouble = 'unknown'
  readonly #options: ModelDriverOptions
  readonly #over = Promise.withResolvers<Exit>()
  readonly #letGo = new AbortController()
  #engine: DaemonEngine
  #memory: InMemory | undefined
  /** Who sends requests there is told of another one. */
  #toldKey: string | undefined
  #holding: Promise<void> | undefined
  #isHeld = false
  /** Why it is over or could not be loaded; what the daemon's last trouble was. */
  #why: string | undefined
  #lastTrouble = ''
  /** A load may take as long as it likes, while the daemon itself answers. */
  #answered = 0
  /** Questions in a row that another program answered: a single odd answer says nothing. */
  #strangers = 0
  /** False once it is to be unloaded: when several are stopped at the same time, the last one must find that no other needs the model. */
  #needsEngine = true
  #isLeaving = false
  /** The load was asked for, so that it may go on where nobody waits for it. */
  #isAsked = false
  /** Another service is to remove what was made there: it may be about to unload it, for which it needs its name. */
  #leavesMade = false
  #state: ServerState | undefined

  constructor(options: ModelDriverOptions) {
    const { life, port, platform, log, liveness, daemon } = options
    this.#options = options
    this.life = life
    this.#engine = options.engine
    this.exited = this.#over.promise
    // One that does not answer cannot be ended, and may have its models: it is asked until it answers.
    this.timings = { ...liveness, everyMs: Math.min(lookEveryMs, liveness.everyMs), hungMisses: Infinity }
    this.#toldKey = daemon.apiKey
    this.poller = new Poller({
      ...{ port, sleepsWhenIdle: false, platform, log, onReading: () => undefined },
      activity: (_port, timeLimitMs, signal) => this.#activity(timeLimitMs, signal),
    })
  }

  get toldBytes(): number | undefined {
    return this.#memory?.bytes
  }

  get apiKey(): string | undefined {
    return this.#options.daemon.apiKey
  }

  get needsEngine(): boolean {
    return this.#needsEngine
  }

  get hangsMessage(): string {
    const { title } = this.#options.daemon
    return this.#lastTrouble === ''
      ? `${title} still holds the model in memory: it is answering requests, and unloads the model after them.`
      : `Whether the model left memory is unknown: ${this.#lastTrouble}`
  }

  readonly readiness = async (port: number, timeLimitMs: number, signal: AbortSignal): Promise<ProbeAnswer> => {
    const { content, daemon } = this.#options
    if (!content) return this.health(port, timeLimitMs, signal)
    if (this.#holding) await Promise.race([this.#holding, pause(timeLimitMs, signal)])
    this.#holding ??= this.#hold(content, signal)
    if (this.#isHeld) return this.health(port, timeLimitMs, signal)
    return this.#ask(timeLimitMs, signal, async (limited) => {
      await daemon.version(limited)
      return { kind: 'answered', status: 503 }
    })
  }

  /** Where it is not in memory any longer, it is over. */
  readonly health = async (_port: number, timeLimitMs: number, signal: AbortSignal): Promise<ProbeAnswer> => {
    const { daemon, content } = this.#options
    const answer = await this.#ask(timeLimitMs, signal, async (limited) => {
      const memory = await this.#look(limited)
      const isComing = memory?.isLoading === true && !content && this.#state?.kind !== 'ready'
      if (isComing) return { kind: 'answered', status: 503 }
      return isThere(memory) ? { kind: 'answered', status: 200 } : gone
    })
    if (signal.aborted) return answer
    if (answer === gone) {
      const why = 'another model took its place there, or somebody unloaded it'
      this.#end(`${daemon.title} no longer holds it in memory: ${why}.`)
    }
    if (daemon.apiKey !== this.#toldKey) {
      this.#toldKey = daemon.apiKey
      this.#options.onKey()
    }
    return answer
  }

  /** The daemon, and that it has the model: at the port of the service only the gateway listens. */
  async answers(timeLimitMs: number, signal: AbortSignal): Promise<ProbeAnswer> {
    try {
      const memory = await this.#look(limitedBy(timeLimitMs, signal))
      return isThere(memory) ? { kind: 'answered', status: 200 } : gone
    } catch (error) {
      return answerOf(error)
    }
  }

  /** Nobody but the gateway listens at its port. */
  listeners(): Promise<PortListeners> {
    return Promise.resolve({ ours: [process.pid], others: [] })
  }

  figures(): Promise<StartFigures> {
    return Promise.resolve({ residentBytes: 0, cpuMs: 0, outputBytes: this.#answered, processes: 1 })
  }

  /** Those of the daemon say nothing of one of its models. */
  members(): Promise<readonly ProcessFacts[]> {
    return Promise.resolve([])
  }

  /** Where a process would be told to end it leaves memory; where one would be killed the gateway cuts its requests. */
  signalNow(): void {
    if (this.#isLeaving) return
    this.#isLeaving = true
    this.#needsEngine = false
    this.#why ??= this.#lastTrouble
    void this.#leave()
  }

  told(state: ServerState): void {
    const before = this.#state
    this.#state = state
    if (state.kind === 'ready' && before?.kind === 'ready' && state.healthy !== before.healthy)
      void this.#note(state.healthy ? 'It answers again' : 'It does not answer')
    if (state.kind !== 'stopping') return
    const [isCut, wasCut] = [state.isCut === true, before?.kind === 'stopping' && before.isCut === true]
    if (before?.kind !== 'stopping')
      void this.#note(`It will leave memory${isCut ? '' : ' once its requests in flight have finished'}`)
    else if (isCut && !wasCut) void this.#note('Requests in flight are cut off')
  }

  reaped(): void {
    this.#needsEngine = false
  }

  letGo(): void {
    this.#letGo.abort()
  }

  account({ cause }: Ending): Account {
    return { message: cause === 'stopped' ? 'The model was stopped.' : (this.#why ?? ''), tail: [] }
  }

  /** What only this agent needed there is removed before another start. */
  async settle(ending: Ending): Promise<Settled> {
    const account = this.account(ending)
    await this.#note(account.message)
    if (!this.#leavesMade && this.#strangers === 0) await this.#removeOurs()
    return { account, portTaken: false }
  }

  async #hold(content: DaemonContent, signal: AbortSignal): Promise<void> {
    const { daemon, log, onCalled } = this.#options
    const begun = performance.now()
    const onStep = (line: string) => {
      log.debug('a model is loaded by a daemon', { ...this.life, line })
      void this.#note(line)
    }
    const onLoad = (name: string) => {
      this.#isAsked = true
      onStep(`${daemon.title} loads ${name}`)
    }
    try {
      await this.#note(`${daemon.title} will serve ${this.#model}`)
      const model = await daemon.hold(content, { signal, onStep, onLoad, needed: () => this.#needed })
      if (model !== this.#model) onCalled((this.#engine = { ...this.#engine, model }))
      const memory = await this.#look(signal)
      if (!isThere(memory)) throw new DaemonError('failed', 'It was loaded, but left memory again at once.')
      await this.#note(
        `It is loaded: ${formatBytes(memory.bytes)} in memory, after ${formatSpan(performance.now() - begun)}`,
      )
      this.#isHeld = true
    } catch (error) {
      if (signal.aborted) return
      this.#why = error instanceof DaemonError ? error.message : `The model could not be loaded: ${messageOf(error)}`
      if (this.#isElsewhere(error) || !this.#isAsked) this.#end(this.#why)
      else this.signalNow()
    }
  }

  /** It leaves memory, unless another service of this agent needs it there. */
  async #leave(): Promise<void> {
    const { daemon, log } = this.#options
    const { signal } = this.#letGo
    let unloadAt = 0
    for (let looks = 0; !this.#letGo.signal.aborted; looks += 1) {
      try {
        if (this.#isShared) {
          await this.#note('It stays in memory for another service of this agent')
          this.#end(this.#why)
          return
        }
        const memory = await this.#look(signal)
        if (memory === undefined) {
          await this.#note('It has left memory')
          this.#end(this.#why)
          return
        }
        // A load that was begun may go on without us, and what a client asks meanwhile may have brought it back.
        if (isThere(memory) && looks >= unloadAt) {
          await daemon.unload(this.#model, signal)
          unloadAt = looks + looksPerUnload
        }
      } catch (error) {
        if (signal.aborted) return
        if (this.#isElsewhere(error)) {
          this.#end(this.#why)
          return
        }
        if (!(error instanceof DaemonError)) log.warn('a model was not unloaded', { ...this.life, error })
        this.#lastTrouble = messageOf(error)
      }
      await pause(hurriedLookMs, signal)
    }
  }

  get #isShared(): boolean {
    const { daemon, neededByOthers } = this.#options
    if (!neededByOthers().has(daemon.canonical(this.#model))) return false
    this.#leavesMade = true
    return true
  }

  /** Whether nobody listens there any longer, or another program answered so many questions in a row: what the daemon held is gone with it. */
  #isElsewhere(error: unknown): boolean {
    if (!(error instanceof DaemonError)) return false
    this.#strangers = error.trouble === 'stranger' ? this.#strangers + 1 : 0
    return (
      error.trouble === 'absent' || error.trouble === 'foreign' || this.#strangers >= this.#options.liveness.hungMisses
    )
  }

  #end(why: string | undefined): void {
    this.#why = why
    this.#over.resolve({ code: null, signal: null })
  }

  async #ask(
    timeLimitMs: number,
    signal: AbortSignal,
    question: (signal: AbortSignal) => Promise<ProbeAnswer>,
  ): Promise<ProbeAnswer> {
    try {
      const answer = await question(limitedBy(timeLimitMs, signal))
      this.#answered += 1
      return answer
    } catch (error) {
      if (!signal.aborted) {
        this.#lastTrouble = messageOf(error)
        if (this.#isElsewhere(error)) this.#end(this.#lastTrouble)
      }
      return answerOf(error)
    }
  }

  /** A daemon tells when a model was used last, and at most of all its models together how many requests it has; the gateway knows its own. */
  async #activity(timeLimitMs: number, signal: AbortSignal | undefined): Promise<Activity> {
    const limited = signal ? limitedBy(timeLimitMs, signal) : AbortSignal.timeout(timeLimitMs)
    try {
      const memory = await this.#look(limited)
      const counts = await Promise.all([this.#options.daemon.requests?.(limited), this.#options.atGateway()])
      const requests = Math.max(0, ...counts.filter((count) => count !== undefined))
      return { kind: 'untold', work: memory?.used ?? 0, requests }
    } catch (error) {
      const { kind } = answerOf(error)
      return { kind: kind === 'cannotAsk' ? kind : 'silent' }
    }
  }

  async #look(signal: AbortSignal): Promise<InMemory | undefined> {
    const memory = await this.#options.daemon.look(this.#model, signal)
    ;[this.#strangers, this.#lastTrouble] = [0, '']
    if (isThere(memory)) this.#memory = memory
    return memory
  }

  get #model(): string {
    return this.#engine.model
  }

  get #needed(): ReadonlySet<string> {
    const { daemon, neededByOthers } = this.#options
    return new Set([...neededByOthers(), daemon.canonical(this.#model)])
  }

  /** What cannot be removed now goes when something is loaded there again. */
  async #removeOurs(): Promise<void> {
    const { daemon, log } = this.#options
    const { model, isOurs } = this.#engine
    if (!isOurs || this.#isShared) return
    try {
      await daemon.remove(model, this.#letGo.signal)
    } catch (error) {
      if (!(error instanceof DaemonError)) throw error
      log.debug('a model stays in its daemon', { ...this.life, model, error })
    }
  }

  /** A line of the log of the service, which no process writes. */
  async #note(line: string): Promise<void> {
    const { output, now } = this.#options
    await output.note(`${wallTimeOf(now()).toISOString()} ${line}`)
  }
}

const gone: ProbeAnswer = { kind: 'silent', reason: 'The daemon does not hold the model in memory.' }

const isThere = (memory: InMemory | undefined): memory is InMemory => memory !== undefined && memory.isLoading !== true

const limitedBy = (timeLimitMs: number, signal: AbortSignal): AbortSignal =>
  AbortSignal.any([signal, AbortSignal.timeout(timeLimitMs)])

/** What the daemon's trouble says of the model. Throws what is no trouble of a daemon. */
function answerOf(error: unknown): ProbeAnswer {
  if (!(error instanceof DaemonError)) throw error
  return { kind: error.trouble === 'notAsked' ? 'cannotAsk' : 'silent', reason: error.message }
}
