import { spawn, type ChildProcessByStdio } from 'node:child_process'
import type { Readable } from 'node:stream'
import { messageOf } from '../util/message-of.ts'
import { signalGroup } from '../util/signal-group.ts'
import { within } from '../util/within.ts'
import type { PowerCommand, PowerSample, ProgramEnd, SampleReader } from './power-source.ts'

interface ProgramRun {
  readonly command: PowerCommand
  readonly reader: SampleReader
  /** Without a sample for so long it hangs. */
  readonly stallMs: number
  readonly onSample: (sample: PowerSample) => void
  /** Ends it. */
  readonly signal: AbortSignal
  readonly kill?: Kill | undefined
}

/** As process.kill: throws where it is refused. */
export type Kill = (pid: number, signal: NodeJS.Signals) => boolean

const signalled: Kill = (pid, signal) => process.kill(pid, signal)

/** No promise of it rejects. */
export interface ProgramLife {
  /** Settles at once when it has ended, hangs or is to end. */
  readonly ended: Promise<ProgramEnd>
  /** Settles when it has exited, or when there is nothing more that we can do to end it. */
  readonly released: Promise<void>
  /** Settles when it has exited, however long that takes. */
  readonly exited: Promise<unknown>
}

type Child = ChildProcessByStdio<null, Readable, Readable>

const maxStderr = 4_096
/** After SIGTERM, then after SIGKILL. */
const graceMs = 5_000

/** Starts a source of power in a process group of its own. The environment is fixed, so that it speaks English. */
export function startProgram(run: ProgramRun): ProgramLife {
  try {
    return watch(run, spawned(run))
  } catch (error) {
    const nothing = Promise.resolve()
    return {
      ended: Promise.resolve({ kind: 'notStarted', message: messageOf(error) }),
      released: nothing,
      exited: nothing,
    }
  }
}

/** Throws where the system has no room for a process, or forbids one. */
function spawned({ command }: ProgramRun): Child {
  return spawn(command.file, command.args, {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', LC_ALL: 'C' },
  })
}

function watch({ reader, stallMs, onSample, signal, kill = signalled }: ProgramRun, child: Child): ProgramLife {
  const { promise: ended, resolve: end } = Promise.withResolvers<ProgramEnd>()
  const { promise: exited, resolve: leave } = Promise.withResolvers<undefined>()
  let stderr = ''
  let hasPrinted = false
  const stall = setTimeout(() => end({ kind: 'stalled', silentMs: stallMs, hasPrinted }), stallMs)
  const onAbort = (): void => end({ kind: 'asked' })
  signal.addEventListener('abort', onAbort, { once: true })
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    hasPrinted = true
    for (const sample of reader.push(text)) {
      stall.refresh()
      onSample(sample)
    }
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => void (stderr = (stderr + text).slice(0, maxStderr)))
  child.once('error', (error) => {
    leave(undefined)
    end({ kind: 'notStarted', message: messageOf(error) })
  })
  child.once('exit', () => {
    // Before its number can be anybody's: what it leaves behind is in its group.
    if (child.pid !== undefined) signalGroup(child.pid, 'SIGTERM', kill)
    leave(undefined)
  })
  child.once('close', (code, ending) => end({ kind: 'exited', code, signal: ending, stderr }))
  const release = async (): Promise<void> => {
    await ended
    clearTimeout(stall)
    signal.removeEventListener('abort', onAbort)
    await endChild(child, exited, kill)
  }
  return { ended, released: release(), exited }
}

/**
 * macOS lets no user signal what runs as root, which sudo does: there its next line ends it, since nobody reads that any more. One
 * that hangs stays, and must not keep the agent.
 */
async function endChild(child: Child, exited: Promise<undefined>, kill: Kill): Promise<void> {
  child.stdout.destroy()
  child.stderr.destroy()
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    if (child.exitCode !== null || child.signalCode !== null) return
    if (child.pid === undefined || !signalGroup(child.pid, signal, kill)) break
    await within(graceMs, exited)
  }
  child.unref()
}
