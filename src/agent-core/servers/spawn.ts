import { spawn, type ChildProcess, type SpawnOptions } from 'node:child_process'
import { mkdir, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { messageOf } from '../util/message-of.ts'
import { digestVariable, type ServerLaunch } from './launch.ts'
import type { Exit } from './server-state.ts'

/** A server's first process, spawned by us or found running. */
export interface RunningProcess {
  readonly pid: number
  /** Of a process that is not our child: its pid may be another process's once it ended, while a child keeps its pid until it is reaped. */
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
 * file itself and without a hold on our event loop, so that it outlives us. Throws SpawnError. (Not execa: all that it does for a child
 * is to be left undone here, and its types do not take a file that is open already.)
 */
export async function spawnServer(
  { executable, argv, localCommand, env, digest }: ServerLaunch,
  { port, output, workingDirectory }: { port: number; output: number; workingDirectory: string },
): Promise<RunningProcess> {
  const command = localCommand?.(port)
  try {
    await mkdir(workingDirectory, { recursive: true, mode: 0o700 })
    for (const [name, folder] of command?.links ?? []) {
      // There is one where the port of an attempt before was taken.
      await rm(join(workingDirectory, name), { force: true })
      await symlink(folder, join(workingDirectory, name))
    }
  } catch (error) {
    throw new SpawnError(`The working directory ${workingDirectory} cannot be made: ${messageOf(error)}.`, {
      cause: error,
    })
  }
  const child = spawnOrThrow(executable, command?.argv ?? argv(port), {
    stdio: ['ignore', output, output],
    cwd: workingDirectory,
    env: { ...env, [digestVariable]: digest },
    detached: true,
  })
  const { pid } = child
  if (pid === undefined) throw await spawnError(executable, child)
  child.unref()
  return { pid, exited: new Promise((resolve) => child.once('exit', (code, signal) => resolve({ code, signal }))) }
}

/** Some failures are thrown, such as an argument list that is too long; others come as an event. */
function spawnOrThrow(executable: string, argv: readonly string[], options: SpawnOptions): ChildProcess {
  try {
    return spawn(executable, argv, options)
  } catch (error) {
    throw new SpawnError(spawnFailure(executable, error), { cause: error })
  }
}

const spawnError = (executable: string, child: ChildProcess): Promise<SpawnError> =>
  new Promise((resolve) =>
    child.once('error', (error) => resolve(new SpawnError(spawnFailure(executable, error), { cause: error }))),
  )

/** EBADARCH of macOS, for which Node has no name. */
const badProcessor = 'Unknown system error -86'

function spawnFailure(executable: string, error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  switch (code) {
    case 'ENOENT':
      return `${executable} cannot be started: it, or the interpreter it names, does not exist.`
    case 'EACCES':
      return `${executable} cannot be started: it is not executable for this user.`
    case 'ENOEXEC':
    case badProcessor:
      return `${executable} cannot be started: it is no program for the processor of this machine. Install llama.cpp again, for this machine.`
    case 'EAGAIN':
    case 'ENOMEM':
    case 'EMFILE':
    case 'ENFILE':
      return `${executable} cannot be started: the system is out of processes, memory or open files (${code}).`
    default:
      return `${executable} cannot be started: ${messageOf(error)}.`
  }
}
