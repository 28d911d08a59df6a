import { createHash } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import { readOrSetAside } from '../state/state-file.ts'
import { parseJson, syncFolder } from '../util/files.ts'
import { messageOf } from '../util/message-of.ts'
import { isOfDaemon, type DaemonLaunch, type Launch, type ServerLaunch } from './launch.ts'
import { type DaemonRuntimeName, daemonRuntimes } from './daemon.ts'
import { serverRuntimes } from './probe.ts'
import { runOf, type RunFolder } from './run-folder.ts'
import { wallTimeOf } from '../util/steady-clock.ts'

const ledgerEntry = z.object({
  key: z.string(),
  /** Uid of the InferenceService. */
  uid: z.string(),
  digest: z.string(),
  /** Absent = llama-server. */
  runtime: z.enum(serverRuntimes).optional().catch(undefined),
  executable: z.string(),
  /** The arguments of the executable; absent where they are too long to be noted. */
  argv: z.array(z.string()).optional(),
  workingDirectory: z.string(),
  logFile: z.string(),
  /** Where in the log file the output of this run begins. */
  outputOffset: z.int().nonnegative(),
  port: z.int().positive(),
  sleepsWhenIdle: z.boolean(),
  /** What it is expected to hold, as estimated at its start. */
  needBytes: z.number().nonnegative().optional(),
  /** How much of it is mapped from the model's file; absent where nothing is. */
  mappedBytes: z.number().nonnegative().optional(),
  /** What it loads: see `ServerLaunch.files`. */
  files: z.array(z.string()).optional(),
  /** Empty where the system did not say. */
  bootId: z.string(),
  loginSession: z.string().optional(),
  intendedAt: z.iso.datetime(),
  /** Absent until the spawn was seen to work. */
  process: z
    .object({
      pid: z.int().positive(),
      startTime: z.string(),
      /** SHA-256 (hex) of the command line as the system prints it back. */
      commandLineDigest: z.string(),
    })
    .optional(),
  /** Absent until it was ready for the first time. */
  readySince: z.iso.datetime().optional(),
  /** A model in a daemon, which has no process of its own; `port` is then where the gateway listens for it. */
  daemon: z
    .object({
      runtime: z.enum(daemonRuntimes),
      host: z.ipv4(),
      port: z.int().positive(),
      model: z.string().max(1_000),
      isOurs: z.boolean(),
    })
    .optional(),
})
export type LedgerEntry = z.infer<typeof ledgerEntry>

export const runOfEntry = ({ workingDirectory }: Pick<LedgerEntry, 'workingDirectory'>): string =>
  runOf(workingDirectory)

/** Where everything of the daemons is that an agent starts itself: their outputs, and what each keeps for good. */
export const daemonsFolder = (stateDir: string): string => join(stateDir, 'daemons')
/** What belongs to a daemon that the agent starts. */
export const daemonHome = (stateDir: string, runtime: DaemonRuntimeName): string =>
  join(daemonsFolder(stateDir), runtime)

/** The ledgers of a state folder: of the servers of services, and of the daemons. */
export const ledgersIn = (stateDir: string) => ({
  servers: join(stateDir, 'ledger.json'),
  daemons: join(daemonsFolder(stateDir), 'ledger.json'),
})

const ledgerFile = z.object({
  schema: z.literal(1),
  servers: z.array(ledgerEntry),
  /** The boot in which the agent was asked to end while servers ran, as an orderly shutdown does. */
  leftIn: z.string().max(200).optional(),
})

/** The servers that a ledger names with their processes; none where its text cannot be understood. */
export const ledgerProcesses = (text: string) =>
  (parse(text)?.servers ?? []).flatMap(({ key, bootId, process: server }) =>
    server ? [{ key, bootId, ...server }] : [],
  )

/** One sentence why a server was not started. */
export class LedgerError extends Error {
  override readonly name = 'LedgerError'
}

export interface LedgerOptions {
  readonly file: string
  readonly platform: Pick<Platform, 'process' | 'bootId' | 'loginSession'>
  readonly log: Logger
  readonly now?: () => number
}

export interface LedgerContent {
  readonly entries: readonly LedgerEntry[]
  /** See the file's `leftIn`. */
  readonly leftIn?: string | undefined
  /** What a person should know, such as that the file could not be read. */
  readonly notice: string | undefined
}

/** Which boot and login this is. */
export interface HostSession {
  /** Empty where the system does not say. */
  readonly bootId: string
  readonly loginSession: string | undefined
}

/**
 * What an agent must know of the servers that an earlier one left running: one file, replaced as a whole. A server is noted before it is
 * spawned, so that the agent can end at any moment without leaving a server behind that no ledger names.
 */
export class Ledger {
  readonly #options: LedgerOptions
  /** By the name of the run. */
  readonly #entries = new Map<string, LedgerEntry>()
  #host: Promise<HostSession> | undefined
  #writing: Promise<void> = Promise.resolve()
  #next: Promise<void> | undefined
  /** Written with every change from then on. */
  #leftIn: string | undefined
  #closed = false
  #failing = false

  constructor(options: LedgerOptions) {
    this.#options = options
  }

  /** To be called once, first. A file that cannot be understood is set aside; throws what the disk answers. */
  async load(): Promise<LedgerContent> {
    const { file, now } = this.#options
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    const { value, aside } = await readOrSetAside(file, parse, { now })
    const entries = value?.servers ?? []
    for (const entry of entries) this.#entries.set(runOfEntry(entry), entry)
    const notice =
      aside &&
      `The ledger of running servers ${file} could not be read and was set aside as ${aside}: the agent searched the running processes instead.`
    return { entries, leftIn: value?.leftIn, notice }
  }

  /** Boot and login of this host; read once. */
  host(): Promise<HostSession> {
    this.#host ??= this.#askHost()
    return this.#host
  }

  /** Resolves when it is on disk, for a spawn to follow. Throws LedgerError. */
  async intend(
    { name, workingDirectory, logFile }: RunFolder,
    launch: Launch,
    { key, ...where }: { key: string; port: number; outputOffset: number },
  ): Promise<void> {
    const { file, now = Date.now } = this.#options
    const { uid, digest, needBytes, mappedBytes = 0, files: loaded } = launch
    const program = isOfDaemon(launch) ? noProgram(launch) : programOf(launch, where.port)
    const files = {
      ...program,
      workingDirectory,
      logFile,
    }
    const memory = {
      ...(needBytes !== undefined && { needBytes }),
      ...(mappedBytes > 0 && { mappedBytes }),
    }
    const what = { key, uid, digest, ...files, ...memory, ...(loaded && { files: [...loaded] }) }
    const entry = { ...what, ...where, ...(await this.host()), intendedAt: new Date(now()).toISOString() }
    this.#entries.set(name, entry)
    try {
      await this.#save()
    } catch (error) {
      if (this.#entries.get(name) === entry) this.#entries.delete(name)
      throw new LedgerError(
        `The server was not started, because it could not be recorded in ${file} (${messageOf(error)}): without that record no agent would manage it after a crash. Make room on that disk, or choose another --state-dir.`,
        { cause: error },
      )
    }
  }

  /** The spawn worked, or the command line is the final one: wrappers replace themselves by the server. */
  async identify(run: string, pid: number): Promise<void> {
    const intended = this.#entries.get(run)
    try {
      const facts = await this.#options.platform.process(pid)
      if (!facts || intended === undefined || this.#entries.get(run) !== intended) return
      const { startTime, commandLine } = facts
      this.#note({ ...intended, process: { pid, startTime, commandLineDigest: digestOf(commandLine) } })
    } catch (error) {
      this.#options.log.warn('server not identified', { service: intended?.key, pid, error })
    }
  }

  /** `pid`: undefined for a daemon's model. */
  async ready(run: string, pid: number | undefined, since: number): Promise<void> {
    if (pid !== undefined) await this.identify(run, pid)
    const entry = this.#entries.get(run)
    if (entry && entry.process?.pid === pid) this.#note({ ...entry, readySince: wallTimeOf(since).toISOString() })
  }

  /** The daemon has the model by another name than was expected. */
  called(run: string, model: string): void {
    const entry = this.#entries.get(run)
    if (entry?.daemon) this.#note({ ...entry, daemon: { ...entry.daemon, model } })
  }

  /** A server that was found running. */
  keep(entry: LedgerEntry): void {
    this.#note(entry)
  }

  forget(run: string): void {
    if (this.#entries.delete(run)) this.#inBackground(this.#save())
  }

  /**
   * The agent was asked to end: an end of the machine that follows is an orderly one. Resolves when it is written, since a machine that is
   * shut down may not wait for more. Never rejects.
   */
  async leaving(): Promise<void> {
    if (this.#entries.size === 0) return
    this.#leftIn = (await this.host()).bootId
    await this.#save().catch((error: unknown) => this.#complain(error))
  }

  /** Writes what is not written yet; nothing is written afterwards. */
  async close(): Promise<void> {
    this.#closed = true
    await (this.#next ?? this.#writing).catch((error: unknown) => this.#complain(error))
  }

  #note(entry: LedgerEntry): void {
    this.#entries.set(runOfEntry(entry), entry)
    this.#inBackground(this.#save())
  }

  #inBackground(saving: Promise<void>): void {
    saving.catch((error: unknown) => this.#complain(error))
  }

  /** Told once per trouble: the next change is the next attempt. */
  #complain(error: unknown): void {
    if (!this.#failing) this.#options.log.warn('ledger not written', { file: this.#options.file, error })
    this.#failing = true
  }

  /** A write that has not begun yet takes this change along. */
  #save(): Promise<void> {
    if (this.#closed) return Promise.resolve()
    const before = this.#writing.catch(() => undefined)
    this.#next ??= before.then(() => {
      this.#next = undefined
      this.#writing = this.#write()
      return this.#writing
    })
    return this.#next
  }

  async #write(): Promise<void> {
    const { file } = this.#options
    const content: z.infer<typeof ledgerFile> = {
      schema: 1,
      servers: [...this.#entries.values()],
      leftIn: this.#leftIn,
    }
    await writeFileAtomic(file, `${JSON.stringify(content)}\n`, { mode: 0o600 })
    await syncFolder(dirname(file))
    this.#failing = false
  }

  async #askHost(): Promise<HostSession> {
    const { platform, log } = this.#options
    try {
      const [bootId, loginSession] = await Promise.all([platform.bootId(), platform.loginSession()])
      return { bootId, loginSession }
    } catch (error) {
      log.warn('boot not known', { error })
      return { bootId: '', loginSession: undefined }
    }
  }
}

function programOf({ runtime, executable, argv, sleepsWhenIdle = false }: ServerLaunch, port: number) {
  const words = argv(port)
  return { ...(runtime && { runtime }), executable, ...(isNotedWhole(words) && { argv: [...words] }), sleepsWhenIdle }
}

const noProgram = ({ runtime, daemon, content: { name, isOurs } }: DaemonLaunch) => ({
  executable: runtime,
  sleepsWhenIdle: false,
  daemon: { runtime, ...daemon, model: name, isOurs },
})

/** The whole file is written at every change of any server. */
const maxNotedArguments = 16_384

const isNotedWhole = (argv: readonly string[]): boolean =>
  argv.reduce((length, word) => length + word.length, 0) <= maxNotedArguments

export const digestOf = (commandLine: string): string => createHash('sha256').update(commandLine).digest('hex')

const parse = (text: string) => ledgerFile.safeParse(parseJson(text)).data
