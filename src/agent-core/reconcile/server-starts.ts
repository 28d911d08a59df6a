import { access, stat } from 'node:fs/promises'
import type { Model } from '../kube/resources.ts'
import type { Logger } from '../observability/logger.ts'
import type { Admission } from './admission.ts'
import { scaledToZero } from './desired.ts'
import type { ServerFiles } from './model-request.ts'
import type { Narrator } from './narrator.ts'
import type { OmlxClaims } from './omlx-claims.ts'
import type { ServerView } from './plan/observation.ts'
import type { DesiredServer, Reading } from './reading.ts'
import type { PreparedServer, ServerLaunches } from './server-launches.ts'
import { isOnItsWay, serverView, type StartFailure } from './server-view.ts'
import type { StartTurns } from './start-turns.ts'
import type { Need } from './sizing.ts'
import { unknownDigest } from '../servers/adoption.ts'
import type { StopOptions } from '../servers/served-model.ts'
import { lifeOf, type ServerState } from '../servers/server-state.ts'
import type { ServerRuntime } from '../servers/probe.ts'
import type { Servers } from '../servers/servers.ts'
import type { Executable } from '../util/find-executable.ts'

/** While a start waits for its back-off: a new binary or model file is a reason to try at once, and looking costs microseconds. */
const lookForChangesEveryMs = 5_000

export interface ServerStartsOptions {
  readonly key: string
  readonly servers: Pick<
    Servers,
    | 'get'
    | 'successor'
    | 'retiring'
    | 'digestOf'
    | 'backOff'
    | 'clearBackOff'
    | 'countFailure'
    | 'start'
    | 'startBeside'
    | 'promote'
    | 'dropSuccessor'
    | 'stop'
  >
  readonly launches: Pick<ServerLaunches, 'findBinary' | 'prepare' | 'startProblem' | 'needKey' | 'sizeUp' | 'launch'>
  readonly admission: Pick<
    Admission,
    'need' | 'prepare' | 'wouldFit' | 'admit' | 'admitBeside' | 'notStarted' | 'compare'
  >
  readonly omlxClaims: Pick<OmlxClaims, 'admitted'>
  readonly turns: Pick<StartTurns, 'ask' | 'forget'>
  readonly narrator: Pick<Narrator, 'tell' | 'startFailed'>
  readonly log: Logger
  readonly enqueue: () => void
  /** The agent is ending and decides nothing more. */
  readonly isStopped: () => boolean
  readonly now: () => number
}

/** The latest start for one role. */
interface Start {
  readonly digest: string
  /** Set if the start failed before there was a process, as when the binary is missing. */
  readonly startFailure?: StartFailure
}

/** Starts the servers of one service, and knows what each was started with. */
export class ServerStarts {
  readonly #options: ServerStartsOptions
  #current: Start | undefined
  /** Kept with the server's end, until it is dropped or takes over. */
  #successor: Start | undefined
  /** What the last start was made of beside the digest: see startInputs. */
  #inputs: string | undefined
  /** A restart that a person asked for; under way from the start of the new server until that is ready or has failed. */
  #restart: 'none' | 'asked' | 'underWay' = 'none'
  #stopReason = ''

  /** Takes up what an earlier agent left running. */
  constructor(options: ServerStartsOptions) {
    const { key, servers } = options
    this.#options = options
    if (lifeOf(servers.get(key)) !== undefined) this.#current = startOf(servers.digestOf(key))
    if (lifeOf(servers.successor(key)) === undefined) return
    this.#successor = startOf(servers.digestOf(key, 'successor') ?? unknownDigest)
  }

  /** Digest of the server that runs, or was started last. */
  get digest(): string | undefined {
    return this.#current?.digest ?? this.#options.servers.digestOf(this.#options.key)
  }

  get hasSuccessor(): boolean {
    return this.#successor !== undefined
  }

  get isRestartAsked(): boolean {
    return this.#restart === 'asked'
  }

  /** Why the server was asked to stop, as a sentence; empty where it was not. */
  get stopReason(): string {
    return this.#stopReason
  }

  views(): { readonly server: ServerView; readonly successor: ServerView; readonly retiring: string | undefined } {
    const { key, servers } = this.#options
    const backOff = servers.backOff(key)
    const retiring = serverView({}, servers.retiring(key))
    return {
      server: serverView(this.#current ?? {}, servers.get(key), backOff),
      successor: serverView(this.#successor ?? {}, servers.successor(key), backOff),
      retiring: retiring.kind === 'stopping' ? retiring.message : undefined,
    }
  }

  /** Also in place of a server that serves; asked again before the new one is there, it is one restart. */
  askRestart(): void {
    const { key, servers } = this.#options
    if (this.#restart === 'none' && !isOnItsWay(servers.successor(key))) this.#restart = 'asked'
    servers.clearBackOff(key)
  }

  /** To be called at each change of a server of the service. */
  changed(state: ServerState): void {
    if (isOutcome(state) && this.#restart === 'underWay') this.#restart = 'none'
  }

  /** False if the model's file is gone, so that it must be fetched again. */
  async start(
    role: 'current' | 'successor',
    { model }: Pick<Reading, 'model'>,
    desiredServer: DesiredServer,
    file: ServerFiles,
  ) {
    const { key, servers, launches, omlxClaims } = this.#options
    if (role === 'current') this.#stopReason = ''
    if (!(await isThere(file.path)) || (file.draft !== undefined && !(await isThere(file.draft)))) return false
    if (desiredServer.runtime === 'omlx') omlxClaims.admitted(key, await this.#wouldStart(desiredServer, file))
    const binary = await launches.findBinary(desiredServer.runtime)
    const inputs = await inputsOf(model, binary, file)
    const before = role === 'current' ? this.#current : this.#successor
    if (before?.digest !== desiredServer.digest || this.#inputs !== inputs) servers.clearBackOff(key)
    this.#inputs = inputs
    if (role === 'current') this.#current = { ...this.#current, digest: desiredServer.digest }
    this.#successor = role === 'current' ? undefined : startOf(desiredServer.digest)
    const looked = await this.#prepare(role, desiredServer, file, binary)
    if (looked === undefined) return true
    const { prepared, executable } = looked
    const need = await this.#needOf(prepared)
    // What asks now would wait, or have its turn, for ever.
    if (this.#options.isStopped()) return true
    // A server beside one that serves was safe before.
    const mayWait = role === 'current'
    if (mayWait && this.#options.turns.ask(key, desiredServer.digest, need.estimate?.total)) return true
    try {
      await this.#startWhereItFits(role, prepared, executable, need)
    } catch (error) {
      // It has its turn, which others wait for.
      this.#options.turns.forget(key)
      throw error
    }
    return true
  }

  async #startWhereItFits(role: 'current' | 'successor', prepared: PreparedServer, executable: string, need: Need) {
    const { key, servers, launches, admission, narrator } = this.#options
    const { desiredServer } = prepared
    await admission.prepare(key, desiredServer, need)
    if (this.#options.isStopped()) return
    if (
      role === 'current' ? !admission.admit(key, desiredServer, need) : !admission.admitBeside(key, desiredServer, need)
    ) {
      this.#successor = undefined
      return
    }
    if (this.#restart === 'asked') this.#restart = 'underWay'
    narrator.tell(key, { kind: 'starting' })
    const launch = launches.launch(prepared, executable, need)
    if (role === 'current') {
      this.#current = startOf(desiredServer.digest)
      servers.start(key, launch)
    } else if (isOnItsWay(servers.get(key))) {
      servers.startBeside(key, launch)
    } else {
      // Its predecessor ended while the binary was looked at.
      this.#successor = undefined
      admission.notStarted(key)
    }
  }

  /** Asks admission whether the desired server fits beside the running one, or in its place. */
  async compare({ model }: Pick<Reading, 'model'>, desiredServer: DesiredServer, file: ServerFiles): Promise<void> {
    const { key, launches, admission } = this.#options
    const binary = await launches.findBinary(desiredServer.runtime)
    const looked = await this.#prepare('successor', desiredServer, file, binary)
    if (looked) await admission.compare(key, desiredServer, await this.#needOf(looked.prepared))
    else this.#inputs = await inputsOf(model, binary, file)
  }

  promote(): void {
    this.#current = this.#successor && startOf(this.#successor.digest)
    this.#successor = undefined
    this.#restart = 'none'
    this.#options.servers.promote(this.#options.key)
  }

  dropSuccessor(): void {
    const { key, servers } = this.#options
    this.#successor = undefined
    // The server that a person wanted replaced is still there.
    if (this.#restart === 'underWay') this.#restart = 'asked'
    servers.clearBackOff(key)
    this.#whenStopped(servers.dropSuccessor(key))
  }

  stop(why: string, options: StopOptions): void {
    const { key, servers, narrator } = this.#options
    this.#stopReason = why
    if (why === scaledToZero) narrator.tell(key, { kind: 'scaledToZero' })
    this.#whenStopped(servers.stop(key, options))
  }

  /** A start in back-off waits no longer when its inputs have changed. Returns when to try again. */
  async soonerStart(
    model: Model | undefined,
    runtime: ServerRuntime | undefined,
    file: ServerFiles | undefined,
  ): Promise<number> {
    const { key, servers, launches, now } = this.#options
    const inputs = await inputsOf(model, runtime && (await launches.findBinary(runtime)), file)
    const waitsForBackOff = servers.backOff(key) !== undefined
    if (inputs === this.#inputs || !waitsForBackOff) return now() + lookForChangesEveryMs
    servers.clearBackOff(key)
    return now()
  }

  /** As far as can be told before its daemon is asked. */
  async #wouldStart(desiredServer: DesiredServer, file: ServerFiles): Promise<boolean> {
    const { key, launches, admission } = this.#options
    const prepared = await launches.prepare(desiredServer, file, { kind: 'missing', message: '' })
    if (await launches.startProblem(prepared, '')) return false
    return admission.wouldFit(key, desiredServer, await this.#needOf(prepared))
  }

  /** Before its files are looked at for their size. Undefined where it could not be started, which counts as a start that failed. */
  async #prepare(role: 'current' | 'successor', desiredServer: DesiredServer, file: ServerFiles, binary: Executable) {
    const { launches } = this.#options
    const { digest } = desiredServer
    if (binary.kind === 'missing') {
      this.#failed(role, digest, { message: binary.message })
      return undefined
    }
    const prepared = await launches.prepare(desiredServer, file, binary)
    const problem = await launches.startProblem(prepared, binary.path)
    if (problem === undefined) return { prepared, executable: binary.path }
    this.#failed(role, digest, problem)
    return undefined
  }

  async #needOf(prepared: PreparedServer) {
    const { key, launches, admission } = this.#options
    const of = await launches.needKey(prepared)
    return admission.need(key, of, () => launches.sizeUp(prepared, of))
  }

  #failed(role: 'current' | 'successor', digest: string, startFailure: StartFailure): void {
    const { key, servers, narrator } = this.#options
    if (role === 'current') this.#current = { digest, startFailure }
    else this.#successor = { digest, startFailure }
    this.#restart = 'none'
    servers.countFailure(key)
    narrator.startFailed(key, role, startFailure.message)
  }

  #whenStopped(stopped: Promise<unknown>): void {
    const { key, log, enqueue } = this.#options
    stopped.catch((error: unknown) => {
      log.error('server not stopped', { key, error })
      enqueue()
    })
  }
}

const inputsOf = (
  model: Model | undefined,
  binary: Executable | undefined,
  file: ServerFiles | undefined,
): Promise<string> => startInputs(model, [binary?.kind === 'found' ? binary.path : undefined, file?.path, file?.draft])

/**
 * What a start depends on that no digest covers: the object behind the model, and the very files (such as a binary that was
 * upgraded in place). Where this changes, earlier failures say nothing about the next start.
 */
async function startInputs(model: Model | undefined, files: readonly (string | undefined)[]): Promise<string> {
  const stamps = await Promise.all(files.map(stampOf))
  return JSON.stringify([model?.metadata.uid, model?.metadata.generation, ...stamps])
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

const startOf = (digest: string | undefined): Start | undefined => (digest === undefined ? undefined : { digest })

/** The store may have been cleared since the model was fetched; why it cannot be read is for the next fetch to say. */
const isThere = (file: string): Promise<boolean> =>
  access(file).then(
    () => true,
    () => false,
  )

/** Whether the start has succeeded or failed. */
const isOutcome = (state: ServerState): boolean =>
  state.kind === 'ready' || state.kind === 'failedToSpawn' || (state.kind === 'exited' && state.cause !== 'stopped')
