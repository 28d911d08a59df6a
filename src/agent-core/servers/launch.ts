import { spawn, type ChildProcess, type SpawnOptions } from 'node:child_process'
import { mkdir, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { messageOf } from '../util/message-of.ts'
import type { RuntimeAdvice } from './crash-cause.ts'
import type { DaemonAddress, DaemonContent, DaemonRuntimeName } from './daemon.ts'
import { type ServerRuntime, serverRuntimes } from './probe.ts'
import type { Exit } from './server-state.ts'

/** Where a server may listen. `first`: taken where it is free, else any other. */
export type PortPolicy =
  | { readonly kind: 'ephemeral'; readonly first?: number }
  | { readonly kind: 'fixed'; readonly port: number }
  | PortRange

export interface PortRange {
  readonly kind: 'range'
  readonly from: number
  /** Inclusive. */
  readonly to: number
}

/** The rules that count for as long as a server runs, also where an earlier agent spawned it. */
export interface LaunchRules {
  /** Decides how it is asked whether it is ready, healthy and at work; absent = llama-server. A daemon's stands for the daemon itself. */
  readonly runtime?: ServerRuntime
  /** Absolute path. */
  readonly executable: string
  /** The longest time a start may go without progress: no growth of memory, no output. */
  readonly startupStallMs?: number | undefined
  /** How long requests in flight may take to finish before a stop. */
  readonly drainLimitMs?: number
  /** It frees its memory when idle, and counts a look at its counters as use. */
  readonly sleepsWhenIdle?: boolean
  /** Between SIGTERM and SIGKILL. */
  readonly stopGraceMs?: number
  /** It gets no SIGKILL, however long it takes to end after SIGTERM. */
  readonly isNeverKilled?: boolean
  /** What is known of its ends; absent = nothing beyond what every program says. */
  readonly advice?: RuntimeAdvice
  /** What a person sets its port by, for sentences. */
  readonly portFlag?: string
}

/** The rules that are the same for every server of an agent. */
export type GeneralRules = Pick<
  LaunchRules,
  'startupStallMs' | 'drainLimitMs' | 'isNeverKilled' | 'portFlag' | 'advice'
>

/** What to start, and under which rules. */
export interface ServerLaunch extends LaunchRules {
  /** The UID of the InferenceService. */
  readonly uid: string
  /** A digest of what is served: tells a later agent whether this server is still the wanted one. */
  readonly digest: string
  readonly argv: (port: number) => readonly string[]
  /**
   * The same with links in its working directory in the place of the folders that `argv` names, by the name of the link: what it is started
   * with, while a person is shown `argv`, which can be run anywhere. Absent = it is started with `argv`.
   */
  readonly localCommand?: (
    port: number,
    workingDirectory: string,
  ) => Promise<{ readonly argv: readonly string[]; readonly links: ReadonlyMap<string, string> }>
  /** The whole environment of the child: see launchEnvironment. */
  readonly env: Readonly<Record<string, string>>
  /** Where it listens, where its arguments do not say so. */
  readonly host?: string
  readonly port: PortPolicy
  /** What it is expected to hold, in bytes; a later agent counts it by that. */
  readonly needBytes?: number
  /** The part of it that is mapped from files. */
  readonly mappedBytes?: number
  /** Absolute paths of the files and folders that it loads: nothing deletes them while it may load them again. */
  readonly files?: readonly string[]
}

/** What a daemon is to load, and under which rules. */
export interface DaemonLaunch
  extends GeneralRules, Pick<ServerLaunch, 'uid' | 'digest' | 'port' | 'needBytes' | 'mappedBytes' | 'files'> {
  readonly runtime: DaemonRuntimeName
  readonly daemon: DaemonAddress
  readonly content: DaemonContent
}

export type Launch = ServerLaunch | DaemonLaunch

export const isOfDaemon = (launch: Launch): launch is DaemonLaunch => 'content' in launch

/** In the environment of every server, so that a server whose entry in the ledger was lost can still say what it serves. */
export const digestVariable = 'METALBAR_SERVING_DIGEST'

/** Its value; that of a llama-server is the digest alone, as earlier agents wrote and read it. */
const markOf = (digest: string, runtime: ServerRuntime = 'llama-server'): string =>
  runtime === 'llama-server' ? digest : `${runtime} ${digest}`

/** A runtime that this agent does not know is none of the digest's. */
export function servedOf(mark: string): { readonly digest: string; readonly runtime?: ServerRuntime } {
  const at = mark.indexOf(' ')
  const runtime = serverRuntimes.find((name) => name === mark.slice(0, at))
  return runtime === undefined ? { digest: mark } : { digest: mark.slice(at + 1), runtime }
}

/** The Go agent's start-up time limit, which there also counted while a model was visibly loading. */
export const defaultStartupStallMs = 120_000

/** Long enough for nearly every answer; a longer one is cut, as llama-server cuts all requests in flight on SIGTERM. */
export const defaultDrainLimitMs = 30_000

/** As long as the Go agent waits. */
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

/** A server's first process, spawned by us or found running. */
export interface RunningProcess {
  readonly pid: number
  /** Set for a process that is not our child: its pid may be reused once it ends, while a child keeps its pid until it is reaped. */
  readonly startTime?: string
  /** Settles in the turn in which a child was reaped, or another's end was seen. */
  readonly exited: Promise<Exit>
}

/** One sentence why there is no process. */
export class SpawnError extends Error {
  override readonly name = 'SpawnError'
}

/**
 * Starts the server as leader of a process group of its own, so that signals reach all of its processes, with its output on the open
 * file itself and without a hold on our event loop, so that it outlives us. Throws SpawnError.
 *
 * This is child_process and not execa: execa's output to a file is a pipe through this process, which ends when we do, while a raw
 * descriptor opened with O_APPEND is the child's own, and stays right when the file is cut under it.
 */
export async function spawnServer(
  { executable, argv, localCommand, env, digest, runtime, advice }: ServerLaunch,
  { port, output, workingDirectory }: { port: number; output: number; workingDirectory: string },
): Promise<RunningProcess> {
  let command: Awaited<ReturnType<NonNullable<ServerLaunch['localCommand']>>> | undefined
  try {
    await mkdir(workingDirectory, { recursive: true, mode: 0o700 })
    command = await localCommand?.(port, workingDirectory)
    for (const [name, folder] of command?.links ?? []) {
      // There is one where the port of an attempt before was taken.
      await rm(join(workingDirectory, name), { force: true })
      await symlink(folder, join(workingDirectory, name))
    }
  } catch (error) {
    if (error instanceof SpawnError) throw error
    throw new SpawnError(`The working directory ${workingDirectory} cannot be made: ${messageOf(error)}.`, {
      cause: error,
    })
  }
  const child = spawnOrThrow({ executable, advice }, command?.argv ?? argv(port), {
    stdio: ['ignore', output, output],
    cwd: workingDirectory,
    env: { ...env, [digestVariable]: markOf(digest, runtime) },
    detached: true,
  })
  const { pid } = child
  if (pid === undefined) throw await spawnError({ executable, advice }, child)
  child.unref()
  return { pid, exited: new Promise((resolve) => child.once('exit', (code, signal) => resolve({ code, signal }))) }
}

interface Program {
  readonly executable: string
  readonly advice: RuntimeAdvice | undefined
}

/** Some failures are thrown, such as an argument list that is too long; others come as an event. */
function spawnOrThrow(program: Program, argv: readonly string[], options: SpawnOptions): ChildProcess {
  try {
    return spawn(program.executable, argv, options)
  } catch (error) {
    throw new SpawnError(spawnFailure(program, error), { cause: error })
  }
}

const spawnError = (program: Program, child: ChildProcess): Promise<SpawnError> =>
  new Promise((resolve) =>
    child.once('error', (error) => resolve(new SpawnError(spawnFailure(program, error), { cause: error }))),
  )

/** EBADARCH of macOS, for which Node has no name. */
const badProcessor = 'Unknown system error -86'

function spawnFailure({ executable, advice }: Program, error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  switch (code) {
    case 'ENOENT':
      return `${executable} cannot be started: it, or the interpreter it names, does not exist.`
    case 'EACCES':
      return `${executable} cannot be started: it is not executable by this user.`
    case 'ENOEXEC':
    case badProcessor:
      return `${executable} cannot be started: it was not built for this machine's processor. Install ${advice?.product ?? 'it'} again, for this machine.`
    case 'EAGAIN':
    case 'ENOMEM':
    case 'EMFILE':
    case 'ENFILE':
      return `${executable} cannot be started: the system is out of processes, memory or open files (${code}).`
    default:
      return `${executable} cannot be started: ${messageOf(error)}.`
  }
}
