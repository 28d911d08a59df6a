import { spawn, type ChildProcess } from 'node:child_process'
import { hasCode } from '../support/files.ts'
import { messageOf } from '../support/message-of.ts'
import { within } from '../support/within.ts'
import { powermetricsArguments, type PowerCommands } from './powermetrics.ts'
import { PowermetricsParser, type PowerSample } from './powermetrics-parser.ts'

interface PowermetricsRun {
  readonly commands: PowerCommands
  readonly intervalMs: number
  /** Without a sample for so long it hangs. */
  readonly stallMs: number
  readonly onSample: (sample: PowerSample) => void
  /** Ends it. */
  readonly signal: AbortSignal
}

export type PowermetricsEnd =
  | { readonly kind: 'asked' }
  | { readonly kind: 'notStarted'; readonly message: string }
  | { readonly kind: 'stalled'; readonly silentMs: number; readonly hasPrinted: boolean }
  | {
      readonly kind: 'exited'
      readonly code: number | null
      readonly signal: NodeJS.Signals | null
      readonly stderr: string
    }

const maxStderr = 4_096
/** After SIGTERM, then after SIGKILL. */
const graceMs = 5_000

/**
 * One life of powermetrics under sudo, in a process group of its own. Settles when it has ended, or cannot be waited for any longer.
 * The environment is fixed, so that both speak English.
 */
export async function runPowermetrics(run: PowermetricsRun): Promise<PowermetricsEnd> {
  const { commands, intervalMs, stallMs, onSample, signal } = run
  if (signal.aborted) return { kind: 'asked' }
  const { promise: ended, resolve: end } = Promise.withResolvers<PowermetricsEnd>()
  const child: ChildProcess = spawn(
    commands.sudo,
    ['-n', commands.powermetrics, ...powermetricsArguments(intervalMs)],
    {
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', LC_ALL: 'C' },
    },
  )
  const gone = Promise.withResolvers<undefined>()
  const parser = new PowermetricsParser()
  let stderr = ''
  let hasPrinted = false
  const stall = setTimeout(() => end({ kind: 'stalled', silentMs: stallMs, hasPrinted }), stallMs)
  const onAbort = (): void => end({ kind: 'asked' })
  signal.addEventListener('abort', onAbort, { once: true })
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    hasPrinted = true
    for (const sample of parser.push(text)) {
      stall.refresh()
      onSample(sample)
    }
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => void (stderr = (stderr + text).slice(0, maxStderr)))
  child.once('error', (error) => {
    gone.resolve(undefined)
    end({ kind: 'notStarted', message: messageOf(error) })
  })
  child.once('exit', () => {
    // Before its number can be anybody's: what sudo leaves behind is in its group.
    signalGroup(child, 'SIGTERM')
    gone.resolve(undefined)
  })
  child.once('close', (code, ending) => end({ kind: 'exited', code, signal: ending, stderr }))
  try {
    return await ended
  } finally {
    clearTimeout(stall)
    signal.removeEventListener('abort', onAbort)
    await endChild(child, gone.promise)
  }
}

/** Where the system does not let us signal what runs as root, it ends by itself: its next line finds nobody who reads. */
async function endChild(child: ChildProcess, gone: Promise<undefined>): Promise<void> {
  child.stdout?.destroy()
  child.stderr?.destroy()
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    if (child.exitCode !== null || child.signalCode !== null || !signalGroup(child, signal)) return
    await within(graceMs, gone)
  }
}

/** False where nothing of the group is there, or nothing of it is ours to signal. */
function signalGroup(child: ChildProcess, signal: NodeJS.Signals): boolean {
  if (child.pid === undefined) return false
  try {
    return process.kill(-child.pid, signal)
  } catch (error) {
    if (hasCode(error, 'ESRCH') || hasCode(error, 'EPERM')) return false
    throw error
  }
}
