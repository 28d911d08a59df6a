import { stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { sentence } from '../../contract/clean-text.ts'
import { type RuntimeView, runtimeState } from '../../contract/queries.ts'
import type { DaemonStartSetting, ProgramSetting } from '../../contract/settings.ts'
import { DaemonError, type DaemonRuntimeName } from '../servers/daemon.ts'
import { daemonAt } from '../servers/daemons.ts'
import { launchEnvironment } from '../servers/launch.ts'
import { loopback } from '../servers/listening.ts'
import type { ServerRuntime } from '../servers/probe.ts'
import { askProgram, ProgramError } from '../util/ask-program.ts'
import { type Executable, findExecutable } from '../util/find-executable.ts'
import type { Dialects } from './dialect.ts'
import type { DaemonRuntime, ProcessRuntime, Runtime } from './runtime.ts'
import { runtimes } from './runtimes.ts'

const usualLimitMs = 10_000
/** A program that prints more is not asked further: its version takes a line. */
const maxAnswerBytes = 64 * 1024
const maxVersionBytes = 100
const maxPathBytes = 1_000
const maxMessageBytes = 1_500

interface InstalledOptions {
  /** In the order of preference. */
  readonly offered: () => readonly ServerRuntime[]
  readonly find: (runtime: Runtime) => Promise<Found>
  readonly dialects: Dialects
  /** How long a program may take to say its version. */
  readonly limitMs?: number
  /** What {@link InstalledRuntimes.known} says is another. */
  readonly onChange?: () => void
}

/** `start`: the setting by which an agent starts what is missing. */
type Found = Executable & Pick<RuntimeView, 'start'>

type Facts = Pick<RuntimeView, 'path' | 'version' | 'message' | 'start'>

/** The runtimes that this machine offers: which are installed, and whether each really runs. */
export class InstalledRuntimes {
  readonly #options: InstalledOptions
  readonly #asked = new Map<string, { readonly stamp: string; readonly facts: Promise<Facts> }>()
  #known: readonly RuntimeView[] | undefined
  #found: readonly ServerRuntime[] = []

  constructor(options: InstalledOptions) {
    this.#options = options
  }

  /** As of the last look; undefined before the first. */
  get known(): readonly RuntimeView[] | undefined {
    return this.#known
  }

  /** Those whose program was there when it was looked for last, whether or not it runs. */
  get found(): readonly ServerRuntime[] {
    return this.#found
  }

  /** Those of {@link found} that did not answer as they should when they were run last, each with a sentence. */
  get unverified(): ReadonlyMap<ServerRuntime, string> {
    const views = new Map(this.#known?.map((view) => [view.name, view]))
    return new Map(
      this.#found.flatMap((name) => {
        const view = views.get(name)
        return view && runtimeState(view) === 'unverified' ? [[name, view.message ?? '']] : []
      }),
    )
  }

  /**
   * Only looks for the programs and runs none, so that a runtime can be chosen before a slow one has answered. A daemon is left to {@link look},
   * since it is asked over a connection that may hang.
   */
  async find(): Promise<void> {
    await this.#find(this.#options.offered().filter((name) => runtimes[name].kind === 'process'))
  }

  async #find(names: readonly ServerRuntime[]): Promise<readonly (readonly [ServerRuntime, Found])[]> {
    const { find } = this.#options
    const binaries = await Promise.all(names.map(async (name) => [name, await find(runtimes[name])] as const))
    this.#found = binaries.flatMap(([name, { kind }]) => (kind === 'found' ? [name] : []))
    return binaries
  }

  /** A program is run once for its file as it is. `again`: one that did not answer is run once more. */
  async look({ again = false }: { readonly again?: boolean } = {}): Promise<readonly RuntimeView[]> {
    const { offered, onChange } = this.#options
    const views = await Promise.all(
      (await this.#find(offered())).map(async ([name, binary]) => {
        const runtime: Runtime = runtimes[name]
        const facts = await this.#look(runtime, binary, again)
        return { name, formats: runtime.formats === 'any' ? ['gguf'] : [...runtime.formats], ...facts }
      }),
    )
    const before = this.#known
    if (before && isDeepStrictEqual(views, before)) return before
    this.#known = views
    onChange?.()
    return views
  }

  async #look(runtime: Runtime, binary: Found, again: boolean): Promise<Facts> {
    if (binary.kind === 'missing') return missing(binary)
    if (runtime.kind === 'process') return this.#factsOf(runtime, binary.path, again)
    return {
      path: binary.path,
      ...(binary.version !== undefined && { version: sentence(binary.version, maxVersionBytes) }),
    }
  }

  async #factsOf(runtime: ProcessRuntime, path: string, again: boolean): Promise<Facts> {
    const stamp = await stampOf(path)
    const before = this.#asked.get(path)
    if (before?.stamp === stamp) {
      const facts = await before.facts
      if (facts.message === undefined || !again) return facts
    }
    const facts = this.#ask(runtime, path)
    this.#asked.set(path, { stamp, facts })
    return facts
  }

  async #ask(runtime: ProcessRuntime, path: string): Promise<Facts> {
    const { flags, program, version } = runtime
    const shown = sentence(path, maxPathBytes)
    const unverified = (message: string): Facts => ({ path: shown, message: sentence(message, maxMessageBytes) })
    const again = `Install ${flags.product} again, or name another one with ${program.flag}.`
    try {
      const { stdout, stderr } = await askProgram({
        command: version.beside === undefined ? path : join(dirname(path), version.beside),
        args: version.args,
        env: launchEnvironment(),
        timeLimitMs: this.#options.limitMs ?? usualLimitMs,
        maxOutputBytes: maxAnswerBytes,
      })
      const told = version.shownBy.exec(`${stderr}\n${stdout}`)?.[1]
      const problem = told === undefined || flags.isStrict === true ? await this.#problemWith(runtime, path) : undefined
      if (told === undefined)
        return unverified(problem ?? `${shown} does not report its version as ${program.name} does. ${again}`)
      return {
        ...(problem === undefined ? { path: shown } : unverified(problem)),
        version: sentence(told, maxVersionBytes),
      }
    } catch (error) {
      if (!(error instanceof ProgramError)) throw error
      return unverified(`${error.message} ${again}`)
    }
  }

  /** What keeps it from being started, said of its path. */
  async #problemWith(runtime: ProcessRuntime, path: string): Promise<string | undefined> {
    const { flags, problem } = await this.#options.dialects.of(runtime, path, launchEnvironment())
    if (problem !== undefined) return `${path} ${problem}`
    if (flags !== undefined || runtime.flags.isStrict !== true) return undefined
    return `${path} does not answer ${runtime.helpArgs.join(' ')}. Install ${runtime.flags.product} again, or name another one with ${runtime.program.flag}.`
  }
}

interface RuntimeSearch {
  readonly system: 'darwin' | 'linux'
  /** The PATH variable. */
  readonly path: string | undefined
  /** What a person set, or the default of a daemon's port. */
  readonly settings: Readonly<
    Partial<Record<ProgramSetting, string | undefined> & Record<DaemonStartSetting, boolean>> &
      Record<DaemonRuntime['port'], number>
  >
  /** Absent where no agent runs. */
  readonly daemons?: OwnDaemons
}

/** The daemons that the agent starts. */
export interface OwnDaemons {
  /** Why one does not answer; undefined where the agent does not start it. */
  readonly whyAbsent: (daemon: DaemonRuntimeName) => AbsentDaemon | undefined
  /** The folder of one that was started here and runs. */
  readonly homeOf: (daemon: DaemonRuntimeName) => string | undefined
}

/** Why a daemon that this agent starts is not there: a sentence. */
export interface AbsentDaemon {
  readonly message: string
  /** It still answers, and nothing may be loaded there. */
  readonly isLeaving: boolean
}

/** The program of a runtime, or the daemon that answers. Looked for at each call: an installation while the agent runs counts. */
export function findRuntime(runtime: Runtime, { system, path, settings, daemons }: RuntimeSearch): Promise<Found> {
  if (runtime.kind === 'daemon') return findDaemon(runtime, settings[runtime.port], daemons)
  const given = settings[runtime.programSetting]
  return findExecutable(runtime.program, { given, system, path })
}

/** The version of the daemon that answers at the port on this machine. Throws DaemonError. */
export const askDaemon = ({ name }: Pick<DaemonRuntime, 'name'>, port: number, home?: string): Promise<string> =>
  daemonAt(name, { host: loopback, port }, home).version(AbortSignal.timeout(usualLimitMs))

/** Whether a daemon answers on this machine. Asked at each call, as it may be started and ended at any time. */
export async function findDaemon(runtime: DaemonRuntime, port: number, daemons?: OwnDaemons): Promise<Found> {
  const { product, portFlag, howToStart, mayRun, start } = runtime
  if (port === 0) return { kind: 'missing', message: `${product} is switched off here (${portFlag} 0).` }
  const reason = daemons?.whyAbsent(runtime.name)
  if (reason?.isLeaving === true) return { kind: 'missing', message: reason.message }
  const absent = {
    kind: 'missing',
    message: reason?.message ?? `${product} does not run at ${loopback}:${port}: ${howToStart}.`,
    ...(!reason && { start: start.setting.name }),
  } as const
  if (!reason && (await mayRun?.(port)) === false) return absent
  try {
    const version = await askDaemon(runtime, port, daemons?.homeOf(runtime.name))
    return { kind: 'found', path: `http://${loopback}:${port}`, version }
  } catch (error) {
    if (!(error instanceof DaemonError)) throw error
    return error.trouble === 'absent' ? absent : { kind: 'missing', message: error.message }
  }
}

const missing = ({ message, start }: Extract<Found, { kind: 'missing' }>): Facts => ({
  message: sentence(message, maxMessageBytes),
  ...(start && { start }),
})

/** The time of the last change counts rights as well, so that a program that may be run now is run. */
async function stampOf(path: string): Promise<string> {
  const found = await stat(path).catch(() => undefined)
  return JSON.stringify([path, found?.ctimeMs, found?.mtimeMs, found?.size, found?.ino])
}
