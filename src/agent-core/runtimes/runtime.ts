import type { DaemonStartSetting, ProgramSetting } from '../../contract/settings.ts'
import type { InferenceServiceSpec, ModelSpec } from '../kube/resources.ts'
import type { RuntimeAdvice } from '../servers/crash-cause.ts'
import type { DaemonAddress, DaemonContent, DaemonRuntimeName } from '../servers/daemon.ts'
import type { ProcessRuntimeName } from '../servers/probe.ts'
import type { Wanted } from '../util/find-executable.ts'
import type { LocalCommand, ServerFlags } from './argument-policy.ts'
import type { Dialect } from './dialect.ts'

/** What a command line is made of. What is absent is known only when a server is started here, and left out of a digest. */
export interface CommandInput {
  readonly spec: InferenceServiceSpec
  readonly model: ModelSpec
  /** Absolute path of the model's file or folder; empty for a digest. */
  readonly modelPath: string
  /** Where it listens; absent = everywhere, as for a digest. */
  readonly host?: string | undefined
  readonly port: number
  /** Absent where cores do not come in two kinds. */
  readonly performanceCores?: number | undefined
  /** The model's name towards clients, as LLMKube's agent passes it. */
  readonly alias?: string | undefined
  readonly mmproj?: string | undefined
  /** Absolute path of the draft weights that the spec asks for. */
  readonly draft?: string | undefined
  readonly dialect?: Dialect | undefined
  /** Keeps the cache of prompts to what was counted for it. */
  readonly promptCacheMiB?: number | undefined
}

/** What every runtime has. */
interface RuntimeRow {
  /** What else an annotation, `spec.runtime` and `--runtime` may call it. */
  readonly aliases: readonly string[]
  /** The values of `Model.spec.format` that it serves; `any` = all that no other runtime is alone for. */
  readonly formats: readonly string[] | 'any'
  readonly flags: ServerFlags
  /** One sentence where a field of the spec cannot be passed on. */
  readonly fieldProblem: (spec: InferenceServiceSpec) => string | undefined
  /** One sentence where a model that is here must not be given to it. */
  readonly modelProblem: (path: string) => Promise<string | undefined>
  /** What its models are, and with that how its memory is estimated. */
  readonly sizing: 'gguf' | 'safetensors'
  /** The command line; of what is no process that of a llama-server, by which its memory is estimated and a change of the spec is told. */
  readonly argv: (input: CommandInput) => string[]
  /** Whoever reaches it can have it do more than serve its model: it listens on loopback alone, whatever `--listen` says. */
  readonly isBehindGateway: boolean
}

/** A program that holds several models, which this agent has it load and unload. A person runs it, or has this agent start it. */
export interface DaemonRuntime extends RuntimeRow {
  readonly kind: 'daemon'
  readonly name: DaemonRuntimeName
  readonly product: string
  /** The setting that names its port on loopback, its flag, and how a person starts it. */
  readonly port: 'ollamaPort' | 'omlxPort'
  readonly portFlag: string
  readonly howToStart: string
  /** False where nobody need be asked at that port, which other programs often have. Absent = always. */
  readonly mayRun?: (port: number) => Promise<boolean>
  readonly start: DaemonStart
  /** Fields of the spec that it could only have for all its models at once. A service is served without them, and says so. */
  readonly settingsOfAll: readonly (keyof InferenceServiceSpec)[]
  readonly content: (input: ContentInput) => DaemonContent
}

export interface ContentInput extends CommandInput {
  readonly revision: string
  /** Tells what this agent makes there from what others do. */
  readonly owner: string
}

/** How this agent starts a daemon where a person says so. */
export interface DaemonStart {
  /** The setting that says so, with its flag, and the one that names the program. */
  readonly setting: { readonly name: DaemonStartSetting; readonly flag: string; readonly program: ProgramSetting }
  readonly program: Wanted
  /** Before each start, in {@link DaemonPlace.home}. */
  readonly prepare?: (home: string) => Promise<void>
  readonly command: (where: DaemonPlace) => {
    readonly argv: readonly string[]
    /** Added to what every server sees of the agent's environment. */
    readonly environment: Readonly<Record<string, string>>
  }
  /** Killed with a model in memory it would take the machine down. */
  readonly isNeverKilled?: boolean
}

export interface DaemonPlace extends DaemonAddress {
  /** A folder that only this daemon of this agent has, for good. */
  readonly home: string
  /** The agent's own environment. */
  readonly env: NodeJS.ProcessEnv
}

export type Runtime = ProcessRuntime | DaemonRuntime

/** A runtime of which this agent starts a process for each service. */
export interface ProcessRuntime extends RuntimeRow {
  readonly kind: 'process'
  readonly name: ProcessRuntimeName
  /** The setting that names its program. */
  readonly programSetting: ProgramSetting
  readonly program: Wanted
  /** How it is asked for its version; the first group of `shownBy` is the version. */
  readonly version: {
    readonly args: readonly string[]
    readonly shownBy: RegExp
    /** A program beside its own that knows it. */ readonly beside?: string
  }
  /** How long a start may go without progress where no setting says so, in milliseconds; absent = as of any server. */
  readonly usualStallMs?: number
  /** What has a build say what it can do. */
  readonly helpArgs: readonly string[]
  /** How a build spells what builds spell differently, out of its answer. */
  readonly dialectFrom: (help: string) => Dialect
  /** Where it does not answer. */
  readonly usualDialect: Dialect
  /** The same with the model's folders as they are seen from the working directory. May throw SpawnError. */
  readonly localCommand: (argv: readonly string[], workingDirectory: string) => Promise<LocalCommand>
  /** For every server, whatever its service says. */
  readonly environment: Readonly<Record<string, string>>
  /** Why its servers end, beside what ends any program. */
  readonly advice: RuntimeAdvice
  /** It frees its memory when idle, and counts a look at its counters as use. */
  readonly sleepsWhenIdle: (spec: InferenceServiceSpec) => boolean
}
