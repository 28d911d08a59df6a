import { access, stat } from 'node:fs/promises'
import type { Model } from '../kube/resources.ts'
import { scaledToZero } from './desired.ts'
import type { ServerFiles } from './model-request.ts'
import { notReplacedMessage } from './plan/facts.ts'
import type { Replacement, ServerView } from './plan/observation.ts'
import type { DesiredServer, Reading } from './reading.ts'
import type { PreparedServer } from './server-launches.ts'
import { serverView, type StartFailure } from './server-view.ts'
import type { ServiceRooms } from './service-rooms.ts'
import type { Need } from './sizing.ts'
import type { StopOptions } from '../servers/served-model.ts'
import { type Failure, lifeOf, type ServerState } from '../servers/server-state.ts'
import type { ServerRuntime } from '../servers/probe.ts'
import type { Executable } from '../util/find-executable.ts'
import { isTurnOver, nextTurn } from '../util/turns.ts'

/** While a start waits for its back-off: a new binary or model file is a reason to try at once, and looking costs microseconds. */
const lookForChangesEveryMs = 5_000

/** The latest start. */
interface Start {
  readonly digest: string
  /** Set if the start failed before there was a process, as when the binary is missing. */
  readonly startFailure?: StartFailure
}

/** Starts the server of one service, and knows what it was started with. */
export class ServerStarts {
  readonly #key: string
  readonly #rooms: ServiceRooms
  #latest: Start | undefined
  /** Why the server of this digest could not be started in the place of the one that runs. */
  #refused: { readonly digest: string; readonly why: string } | undefined
  /** What the last start was made of beside the digest: see {@link inputsOf}. */
  #inputs: string | undefined
  /** A restart that a person asked for; under way from the start of the new server until that is ready or has failed. */
  #restart: 'none' | 'asked' | 'underWay' = 'none'
  #stopReason = ''

  /** Takes up what an earlier agent left running. */
  constructor(key: string, rooms: ServiceRooms) {
    const { servers } = rooms
    this.#key = key
    this.#rooms = rooms
    const digest = servers.factsOf(key)?.digest
    if (digest !== undefined && lifeOf(servers.get(key)) !== undefined) this.#latest = { digest }
  }

  /** Digest of the server that runs, or was started last. */
  get digest(): string | undefined {
    return this.#latest?.digest ?? this.#rooms.servers.factsOf(this.#key)?.digest
  }

  get isRestartAsked(): boolean {
    return this.#restart === 'asked'
  }

  /** Why the server was asked to stop, as a sentence; empty where it was not. */
  get stopReason(): string {
    return this.#stopReason
  }

  get view(): ServerView {
    const { servers } = this.#rooms
    return serverView(this.#latest ?? {}, servers.get(this.#key), servers.backOff(this.#key))
  }

  /** The server that is wanted now: why another one could not be started says nothing about it. */
  want(digest: string | undefined): void {
    if (this.#refused === undefined || this.#refused.digest === digest) return
    this.#refused = undefined
    this.#rooms.servers.clearBackOff(this.#key)
  }

  /** Undefined where nothing is known against a server of this digest in the place of the one that runs. */
  replacement(digest: string): Replacement | undefined {
    const { servers } = this.#rooms
    if (this.#refused?.digest !== digest) return undefined
    const { retryAt } = servers.backOff(this.#key) ?? { retryAt: 0 }
    return { refusal: notReplacedMessage(this.#refused.why, retryAt), retryAt }
  }

  /** A start waits for its back-off. */
  get hasFailed(): boolean {
    return this.#refused !== undefined || this.view.kind === 'failed'
  }

  /** Also in place of a server that serves; asked again before the new one is there, it is one restart. */
  askRestart(): void {
    const { servers } = this.#rooms
    if (this.#restart === 'none') this.#restart = 'asked'
    servers.clearBackOff(this.#key)
  }

  /** To be called at each change of a server of the service. */
  changed(state: ServerState): void {
    if (isOutcome(state) && this.#restart === 'underWay') this.#restart = 'none'
  }

  /** False if a file of the model is gone or, as is looked after a start that failed, damaged: then it must be fetched again. */
  async start({ model }: Pick<Reading, 'model'>, desiredServer: DesiredServer, file: ServerFiles): Promise<boolean> {
    const { servers, launches, narrator, models } = this.#rooms
    this.#stopReason = ''
    if ((await Promise.all([file.path, ...file.files].map(isThere))).includes(false)) return false
    const isFailure = servers.backOff(this.#key) !== undefined && servers.lastFailure(this.#key)?.outOf === 'start'
    if (isFailure && !(await models.isIntact(file))) return false
    const binary = await launches.findBinary(desiredServer.runtime)
    const inputs = await inputsOf(model, binary, file)
    if (this.#latest?.digest !== desiredServer.digest || this.#inputs !== inputs) servers.clearBackOff(this.#key)
    this.#inputs = inputs
    this.#latest = { ...this.#latest, digest: desiredServer.digest }
    this.#refused = undefined
    const looked = await this.#prepare(desiredServer, file, binary)
    if ('message' in looked) {
      this.#latest = { digest: desiredServer.digest, startFailure: looked }
      this.#countFailure()
      narrator.startFailed(this.#key, looked.message)
      return true
    }
    const { prepared, executable } = looked
    const need = await this.#needOf(prepared)
    // What asks now would wait, or have its turn, for ever.
    if (this.#rooms.isStopped()) return true
    if (this.#rooms.turns.ask(this.#key, desiredServer.digest, need.estimate?.total)) return true
    try {
      await this.#startWhereItFits(prepared, executable, need)
    } catch (error) {
      // It has its turn, which others wait for.
      this.#rooms.turns.forget(this.#key)
      throw error
    }
    return true
  }

  async #startWhereItFits(prepared: PreparedServer, executable: string, need: Need) {
    const { servers, launches, admission, narrator } = this.#rooms
    const { desiredServer } = prepared
    await admission.prepare(this.#key, desiredServer, need)
    // All that wait for memory are prepared by one look at it, and so at once.
    while (isTurnOver()) await nextTurn()
    if (this.#rooms.isStopped()) return
    if (!admission.admit(this.#key, desiredServer, need)) return
    if (this.#restart === 'asked') this.#restart = 'underWay'
    narrator.tell(this.#key, { kind: 'starting' })
    this.#latest = { digest: desiredServer.digest }
    servers.start(this.#key, launches.launch(prepared, executable, need))
  }

  /** Asks admission whether the desired server fits in the place of the running one. */
  async compare({ model }: Pick<Reading, 'model'>, desiredServer: DesiredServer, file: ServerFiles): Promise<void> {
    const { launches, admission, narrator } = this.#rooms
    const binary = await launches.findBinary(desiredServer.runtime)
    const looked = await this.#prepare(desiredServer, file, binary)
    if ('prepared' in looked) {
      this.#refused = undefined
      await admission.compare(this.#key, desiredServer, await this.#needOf(looked.prepared))
      return
    }
    this.#inputs = await inputsOf(model, binary, file)
    this.#refused = { digest: desiredServer.digest, why: looked.message }
    const { retryAt } = this.#countFailure()
    narrator.startFailed(this.#key, notReplacedMessage(looked.message, retryAt))
  }

  stop(why: string, options: StopOptions): void {
    const { servers, narrator, log, enqueue } = this.#rooms
    this.#stopReason = why
    if (why === scaledToZero) narrator.tell(this.#key, { kind: 'scaledToZero' })
    servers.stop(this.#key, options).catch((error: unknown) => {
      log.error('server not stopped', { key: this.#key, error })
      enqueue(this.#key)
    })
  }

  /** A start in back-off waits no longer when its inputs have changed. Returns when to try again. */
  async soonerStart(
    model: Model | undefined,
    runtime: ServerRuntime | undefined,
    file: ServerFiles | undefined,
  ): Promise<number> {
    const { servers, launches, now } = this.#rooms
    const inputs = await inputsOf(model, runtime && (await launches.findBinary(runtime)), file)
    const waitsForBackOff = servers.backOff(this.#key) !== undefined
    if (inputs === this.#inputs || !waitsForBackOff) return now() + lookForChangesEveryMs
    servers.clearBackOff(this.#key)
    return now()
  }

  /** Before its files are looked at for their size; why it cannot be started where that is so. */
  async #prepare(
    desiredServer: DesiredServer,
    file: ServerFiles,
    binary: Executable,
  ): Promise<{ readonly prepared: PreparedServer; readonly executable: string } | StartFailure> {
    const { launches } = this.#rooms
    if (binary.kind === 'missing') return { message: binary.message }
    const prepared = await launches.prepare(desiredServer, file, binary)
    return (await launches.startProblem(prepared, binary.path)) ?? { prepared, executable: binary.path }
  }

  async #needOf(prepared: PreparedServer) {
    const { launches, admission } = this.#rooms
    const of = await launches.needKey(prepared)
    return admission.need(this.#key, of, () => launches.sizeUp(prepared, of))
  }

  /** A start that failed before there was a process. */
  #countFailure(): Failure {
    const { servers } = this.#rooms
    this.#restart = 'none'
    return servers.countFailure(this.#key)
  }
}

/**
 * Text of what a start depends on that no digest covers: the object behind the model, and the very files (such as a binary that was
 * upgraded in place). Where this changes, earlier failures say nothing about the next start.
 */
async function inputsOf(
  model: Model | undefined,
  binary: Executable | undefined,
  file: ServerFiles | undefined,
): Promise<string> {
  const files = [binary?.kind === 'found' ? binary.path : undefined, file?.path, file?.draft]
  return JSON.stringify([model?.metadata.uid, model?.metadata.generation, ...(await Promise.all(files.map(stampOf)))])
}

/** Links are followed: an upgrade by Homebrew changes where one points. */
async function stampOf(file: string | undefined): Promise<string> {
  if (file === undefined) return ''
  try {
    const { dev, ino, size, mtimeMs, mode } = await stat(file)
    return [file, dev, ino, size, mtimeMs, mode].join(' ')
  } catch (error) {
    return `${file} ${error instanceof Error && 'code' in error ? String(error.code) : String(error)}`
  }
}

/** The store may have been cleared since the model was fetched; why it cannot be read is for the next fetch to say. */
const isThere = (file: string): Promise<boolean> =>
  access(file).then(
    () => true,
    () => false,
  )

/** Whether the start has succeeded or failed. */
const isOutcome = (state: ServerState): boolean =>
  state.kind === 'ready' || state.kind === 'failedToSpawn' || (state.kind === 'exited' && state.cause !== 'stopped')
