import { spawn, type ChildProcessByStdio } from 'node:child_process'
import type { Readable } from 'node:stream'
import type { PowerFigures } from '../../contract/power.ts'
import { messageOf } from '../util/message-of.ts'
import { signalGroup } from '../util/signal-group.ts'
import { within } from '../util/within.ts'

/** In milliseconds: each is one exact command line of the sudoers rule. */
export const powerIntervalsMs = [1_000, 10_000] as const
export type PowerIntervalMs = (typeof powerIntervalsMs)[number]

/** Milliwatts of one sample, as printed; what is missing or is no number of at least 0 is absent. */
export interface PowerSample {
  readonly combined: number
  readonly cpu?: number | undefined
  readonly gpu?: number | undefined
  readonly ane?: number | undefined
  /** What the whole machine draws, by a sensor of its own: no part draws more. */
  readonly system?: number | undefined
}

/** Takes what a source prints, piece by piece; answers the samples that this piece completes. */
export type SampleReader = (text: string) => PowerSample[]

export type ProgramEnd =
  | { readonly kind: 'asked' }
  | { readonly kind: 'notStarted'; readonly message: string }
  | { readonly kind: 'stalled'; readonly silentMs: number; readonly hasPrinted: boolean }
  | {
      readonly kind: 'exited'
      readonly code: number | null
      readonly signal: NodeJS.Signals | null
      readonly stderr: string
    }

export interface PowerCommand {
  /** An absolute path. */
  readonly file: string
  readonly args: readonly string[]
}

/** A program that keeps printing what this machine draws. None of its promises rejects. */
export interface PowerSource {
  /** As people read it. At most one program of each name runs at a time. */
  readonly name: string
  /** How many intervals the first figures take. */
  readonly firstAfter: number
  /** Asked at each start, so that what was installed meanwhile counts; a string is one sentence why it cannot be started. */
  command(intervalMs: PowerIntervalMs): Promise<PowerCommand | string>
  reader(): SampleReader
  /** One sentence: why power is no longer measured, and what to do. */
  whyEnded(end: ProgramEnd): Promise<string>
  /** One sentence: a program hangs that the agent cannot end, and what to do. */
  readonly stuck: string
}

const longestQuote = 200

/** Why a program ended, in words that fit every source. */
export function endedWords(program: string, end: Exclude<ProgramEnd, { readonly kind: 'stalled' }>): string {
  switch (end.kind) {
    case 'asked':
      return 'Power is no longer measured.'
    case 'notStarted':
      return `${program} cannot be started: ${end.message}.`
    case 'exited': {
      const [line = ''] = end.stderr.trim().split('\n')
      const how = end.signal ?? `exit code ${end.code ?? 0}`
      return `${program} ended (${how})${line === '' ? '' : `: ${line.slice(0, longestQuote)}`}.`
    }
  }
}

/** Longer than any line that is read; powermetrics prints long lines of frequencies. */
const longestLine = 64 * 1024

/** Reads whole lines; one that is too long counts as empty. */
export function lineReader(read: (line: string) => PowerSample[]): SampleReader {
  let pending = ''
  let isTooLong = false
  const grow = (text: string): void => {
    isTooLong ||= pending.length + text.length > longestLine
    pending = isTooLong ? '' : pending + text
  }
  return (text) => {
    const pieces = text.split('\n')
    const last = pieces.pop() ?? ''
    const samples = pieces.flatMap((rest) => {
      grow(rest)
      const line = pending.trim()
      pending = ''
      isTooLong = false
      return read(line)
    })
    grow(last)
    return samples
  }
}

/** More than any Mac can draw from its socket. */
const mostMilliwatts = 1_000_000
/** Each figure is rounded, and they are not read at one instant. */
const slackMilliwatts = 50

/**
 * The figures of a sample that can be true; the rest is left out. A CPU that runs this agent never draws nothing: macOS 27 prints 0 for it
 * where it does not measure it, and the sum then lacks it too. No part draws more than the whole, and nothing more than the system.
 */
export function plausibleWatts({ combined, cpu, gpu, ane, system = mostMilliwatts }: PowerSample): PowerFigures {
  const ceiling = Math.min(mostMilliwatts, system + slackMilliwatts)
  const knowsCpu = cpu !== undefined && cpu > 0
  const rest = (gpu ?? 0) + (ane ?? 0)
  const lacksCpu = cpu === 0 && combined <= rest + slackMilliwatts
  const isPossible = (part: number | undefined): part is number =>
    part !== undefined && part <= ceiling && part <= combined + slackMilliwatts
  return {
    ...(combined > 0 && combined <= ceiling && !lacksCpu && { combinedWatts: combined / 1_000 }),
    ...(knowsCpu && isPossible(cpu) && { cpuWatts: cpu / 1_000 }),
    ...(isPossible(gpu) && { gpuWatts: gpu / 1_000 }),
    ...(isPossible(ane) && { aneWatts: ane / 1_000 }),
  }
}

/** As process.kill: throws where it is refused. */
export type Kill = (pid: number, signal: NodeJS.Signals) => boolean

interface ProgramRun {
  readonly command: PowerCommand
  readonly reader: SampleReader
  /** Without a sample for this long it hangs. */
  readonly stallMs: number
  readonly onSample: (sample: PowerSample) => void
  /** Ends it. */
  readonly signal: AbortSignal
  readonly kill?: Kill | undefined
}

/** None of its promises rejects. */
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

/**
 * Starts a source of power in a process group of its own, with a fixed environment so that it speaks English. By child_process and not as
 * a one-shot command: it prints until it is ended, and as root it may refuse to be.
 */
export function startProgram(run: ProgramRun): ProgramLife {
  try {
    const { file, args } = run.command
    const env = { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', LC_ALL: 'C' }
    return watch(run, spawn(file, args, { detached: true, stdio: ['ignore', 'pipe', 'pipe'], env }))
  } catch (error) {
    // The system has no room for a process, or forbids one.
    const exited = Promise.resolve()
    return { ended: Promise.resolve({ kind: 'notStarted', message: messageOf(error) }), released: exited, exited }
  }
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
    for (const sample of reader(text)) {
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
    // At once, before its number can belong to another process: what it leaves behind is in its group.
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

const signalled: Kill = (pid, signal) => process.kill(pid, signal)

/**
 * macOS lets no user signal what runs as root, which sudo does: there the next line it prints ends it, since nobody reads that line. One
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
