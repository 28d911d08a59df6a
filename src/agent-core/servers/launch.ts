/** Where a server may listen. */
export type PortPolicy = { readonly kind: 'ephemeral' } | { readonly kind: 'fixed'; readonly port: number } | PortRange

export interface PortRange {
  readonly kind: 'range'
  readonly from: number
  /** Inclusive. */
  readonly to: number
}

/** The rules that count for as long as a server runs, also where an earlier agent spawned it. */
export interface LaunchRules {
  /** Absolute path. */
  readonly executable: string
  /** The longest time a start may go without progress: no growth of memory, no output. */
  readonly startupStallMs?: number
  /** How long requests in flight may take to finish before a stop. */
  readonly drainLimitMs?: number
  /** It frees its memory when idle, and counts a look at its counters as use. */
  readonly sleepsWhenIdle?: boolean
  /** Between SIGTERM and SIGKILL. */
  readonly stopGraceMs?: number
  /** What a person sets these by, for the sentences that name them. */
  readonly settingNames?: {
    readonly port?: string
    readonly startupStall?: string
  }
}

/** The rules that are the same for every server of an agent. */
export type GeneralRules = Pick<LaunchRules, 'startupStallMs' | 'drainLimitMs' | 'settingNames'>

/** What to start, and under which rules. */
export interface ServerLaunch extends LaunchRules {
  /** Of the InferenceService. */
  readonly uid: string
  /** Over what is served: tells a later agent whether this server is still the wanted one. */
  readonly digest: string
  readonly argv: (port: number) => readonly string[]
  /**
   * The same with links in its working directory in the place of the folders that `argv` names, by the name of the link: what it is started
   * with, while a person is shown `argv`, which can be run anywhere. Absent = it is started with `argv`.
   */
  readonly localCommand?: (port: number) => {
    readonly argv: readonly string[]
    readonly links: ReadonlyMap<string, string>
  }
  /** The whole environment of the child: see launchEnvironment. */
  readonly env: Readonly<Record<string, string>>
  readonly port: PortPolicy
  /** What it is expected to hold, in bytes; a later agent counts it by that. */
  readonly needBytes?: number
  /** The part of it that is mapped from files. */
  readonly mappedBytes?: number
  /** Absolute paths of the files and folders that it loads: nothing deletes them while it may load them again. */
  readonly files?: readonly string[]
}

/** In the environment of every server, so that a server whose entry in the ledger was lost can still say what it serves. */
export const digestVariable = 'METALBAR_SERVING_DIGEST'

/** The Go agent's start-up time limit, which there also counted while a model was visibly loading. */
export const defaultStartupStallMs = 120_000

/** Long enough for nearly every answer; a longer one is cut, as llama-server cuts all requests in flight on SIGTERM. */
export const defaultDrainLimitMs = 30_000

/** The Go agent gives it as long. */
export const defaultStopGraceMs = 10_000

/**
 * What a server may see of our environment: where programs and temporary files are, and how to write text. Credentials of the agent
 * stay with the agent. The Go agent's GGML variables are not set: current llama.cpp reads neither on Apple silicon.
 */
const allowedVariables = [
  'PATH',
  'HOME',
  'USER',
  'LOGNAME',
  'SHELL',
  'LANG',
  'LC_ALL',
  'LC_CTYPE',
  'TZ',
  'TMPDIR',
  'LD_LIBRARY_PATH',
]

/** The child's environment: the allowed part of ours, then what the service adds. */
export function launchEnvironment(
  extras: Readonly<Record<string, string>> = {},
  own: NodeJS.ProcessEnv = process.env,
): Record<string, string> {
  const allowed = allowedVariables.flatMap((name) => {
    const value = own[name]
    return value === undefined ? [] : [[name, value] as const]
  })
  return { ...Object.fromEntries(allowed), ...extras }
}
