import { basename } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { formatBytes } from '../../contract/format.ts'
import type { ReadableOutput } from './output.ts'
import { readLines } from './output-reader.ts'
import type { Evidence, Exit, ExitCause, Hang, MemoryAtEnd } from './server-state.ts'

/** An end, and what may say why. */
export interface CrashClues extends Exit, Evidence {
  readonly executable: string
  /** Advice of its runtime; absent where the runtime is not known. */
  readonly advice?: RuntimeAdvice | undefined
  readonly outOf: 'start' | 'serving'
  readonly system: 'darwin' | 'linux'
  readonly memory?: MemoryAtEnd | undefined
  /** The memory of the machine. */
  readonly totalBytes: number
}

/** What is known of the ends of a runtime's servers. */
export interface RuntimeAdvice {
  /** What a person installs to have it. */
  readonly product: string
  /** The formula of Homebrew that has it; absent where none is known. */
  readonly formula?: string
  readonly causes: readonly KnownCause[]
}

export interface KnownCause {
  /** In the program's own words: of mlx-server 0.1.0, vllm-swift 0.6.2, TensorFold 0.6.6, and as beside the others. */
  readonly says: RegExp
  /** One sentence: the probable cause, and what to do. */
  readonly advice: (remedies: Remedies) => string
}

/** Parts of an advice: clauses without a period, and `tooMuch`, a sentence. */
export interface Remedies {
  readonly product: string
  readonly executable: string
  /** Upgrade it. */
  readonly upgrade: string
  /** Install it again. */
  readonly reinstall: string
  readonly tooMuch: string
}

function remediesFor({ executable, advice, system }: CrashClues): Remedies {
  const { product = basename(executable), formula } = advice ?? {}
  const by = (verb: string) => (system === 'darwin' && formula !== undefined ? ` ("brew ${verb} ${formula}")` : '')
  const isNamed = by('upgrade') === ''
  return {
    ...{ product, executable },
    upgrade: isNamed ? `upgrade ${product}` : `upgrade it${by('upgrade')}`,
    reinstall: isNamed ? `install ${product} again` : `install it again${by('reinstall')}`,
    tooMuch: `The ${system === 'darwin' ? "GPU's share of the memory" : 'memory'} is not enough: lower spec.contextSize or spec.parallelSlots, choose a smaller model, or quit other programs that use memory.`,
  }
}

interface ExitStory extends CrashClues {
  readonly cause: ExitCause
  /** See guessCause. */
  readonly guess: string | undefined
  readonly stallMs: number
  /** Set only with the cause `hung`. */
  readonly hang?: Hang | undefined
}

/** What ended, why as far as is known, and what to do where we know. */
export function exitMessage(story: ExitStory): string {
  const name = basename(story.executable)
  switch (story.cause) {
    case 'stopped':
      return stoppedMessage(story.executable)
    case 'stalled':
      return `${name} made no progress for ${story.stallMs / 1000} s while starting (its memory did not grow, it wrote nothing and did not become ready), so the agent stopped it; if this model needs longer, raise --startup-timeout.`
    case 'hung': {
      const why = story.outOf === 'serving' ? undefined : story.firstError
      const what = `${name} ${hangs[story.hang ?? 'silent']}, so the agent stopped it${why === undefined ? '.' : `: ${closed(why)}`}`
      return story.guess === undefined ? what : `${what} ${story.guess}`
    }
    case 'portTaken':
      return `${name} was stopped because another program answers on its port.`
    case 'itself': {
      const when = story.outOf === 'start' ? 'while starting' : 'while it was serving'
      const how = howItEnded(story)
      const why = story.firstError ?? (story.outOf === 'start' ? story.tail.at(-1) : undefined)
      const what = why === undefined ? `${name} ${how} ${when}.` : `${name} ${how} ${when}: ${closed(why)}`
      return story.guess === undefined ? what : `${what} ${story.guess}`
    }
  }
}

function howItEnded({ code, signal }: Exit): string {
  if (signal !== null) return `was ended by ${signal}`
  if (code !== null) return `exited with code ${code}`
  return 'ended (exit code unknown, because the agent that started it was gone)'
}

const hangs: Readonly<Record<Hang, string>> = {
  silent: 'hung (its process was alive, but it neither answered nor worked)',
  suspended: 'was suspended (by SIGSTOP, a terminal or a debugger) and stopped answering',
  failing: 'kept failing its health check',
  stuck: 'hung (it made no progress on any request in flight for minutes)',
  alone: 'waited for the process that loads its model, which had ended',
}
export const hangsMessage = (pid: number | undefined, { isNeverKilled = false } = {}): string =>
  isNeverKilled
    ? `Process ${pid ?? 'unknown'} was asked to exit and has not yet: the agent waits for it, because killing it is not safe.`
    : `Process ${pid ?? 'unknown'} was killed but has not exited: it is stuck in the kernel, and only restarting the machine may help.`

export const stoppedMessage = (executable: string): string => `${basename(executable)} was stopped.`

const closed = (text: string) => (/[.!?…]$/.test(text) ? text : `${text.replace(/[:,;]$/, '')}.`)

/** A start fails over what it prints; a server that served for hours may have printed anything before its last lines. */
const lastWords = 20

/** One sentence with the probable cause and what to do about it; undefined where no known cause fits. */
export function guessCause(clues: CrashClues): string | undefined {
  const { outOf, firstError, tail } = clues
  const lines = outOf === 'start' ? [firstError ?? '', ...tail] : tail.slice(-lastWords)
  const known = [...signed, ...(clues.advice?.causes ?? []), ...ofEveryProgram].find(({ says }) =>
    lines.some((line) => says.test(line)),
  )
  const remedies = remediesFor(clues)
  return known ? known.advice(remedies) : bySignal(clues, remedies)
}

const couldNotBind = /address (is )?already in use|EADDRINUSE|couldn't bind|could not bind|failed to bind/i

/** Did it end because its port was taken after all? */
export const saysAddressInUse = ({ firstError, tail }: Evidence): boolean =>
  [firstError ?? '', ...tail].some((line) => couldNotBind.test(line))

/** In the words of the loader of macOS; it says more after it, which is not the cause. */
const signed: readonly KnownCause[] = [
  { says: /code signature|not valid for use in process|denied by system policy/i, advice: notAccepted },
]

/** In the words of loaders, shells, C++ and llama.cpp's back ends; lines about memory come last, as one failure causes others after it. */
const ofEveryProgram: readonly KnownCause[] = [
  {
    says: /library not loaded|symbol not found|error while loading shared libraries|symbol lookup error|no backends are loaded/i,
    advice: ({ reinstall }) => `A library that it needs is missing or does not fit: ${reinstall}.`,
  },
  {
    says: /bad cpu type in executable|exec format error|cannot execute binary file|: \d+: syntax error: /i,
    advice: ({ executable, reinstall }) => `${executable} was not built for this machine's processor: ${reinstall}.`,
  },
  {
    says: /insufficient memory|OutOfMemory|OutOfDeviceMemory|out of memory|failed to allocate (\w+ )?buffer|unable to allocate \w+ buffer|bad_alloc/i,
    advice: ({ tooMuch }) => tooMuch,
  },
]

function bySignal(clues: CrashClues, remedies: Remedies): string | undefined {
  const { code, signal, outOf, tail, system, executable } = clues
  if (signal === 'SIGKILL' && system === 'darwin' && outOf === 'start' && tail.length === 0) {
    return notAccepted(remedies)
  }
  if (signal === 'SIGKILL' || code === killedInAShell) {
    return `Something killed it, perhaps the kernel because memory ran out${footprint(clues)}: if it happens again, choose a smaller model or quit other programs that use memory.`
  }
  if (signal === 'SIGILL') {
    return `${executable} was built for a newer processor than this machine has: ${remedies.reinstall}.`
  }
  return undefined
}

/** 128 + SIGKILL: how a shell around the server tells. */
const killedInAShell = 137

function footprint({ memory, totalBytes }: CrashClues): string {
  if (!memory) return ''
  const age = Math.round(memory.ageMs / 1_000)
  const when = age === 0 ? 'right before' : `${age} s before`
  return ` (it had ${formatBytes(memory.residentBytes)} of ${formatBytes(totalBytes)} ${when})`
}

function notAccepted({ executable, reinstall }: Remedies): string {
  return `The system does not accept the code signature of ${executable}, or has it in quarantine: ${reinstall}.`
}

/** A sentence for a person, not a dump. */
const maxLineLength = 300

/** Words with which llama.cpp, MLX, their libraries, C++, Python and the loaders of macOS and Linux report that something is wrong. */
const trouble =
  /\b(errors?|failed|failure|fatal|exception|panic|abort(ed|ing)?|assert(ion)?|cannot|can't|couldn't|could not|unable to|out of memory|invalid argument|unknown argument|no such file|library not loaded|terminate called|segmentation fault|bus error|illegal instruction|killed|traceback)\b|GGML_ASSERT|^[\w.]+(Error|Exception): /i

/** What looks like trouble and is none: counts of zero, settings, warnings, kernels a GPU does without. */
const harmless =
  /\b(no|0|zero|without) (errors?|failures?)\b|\berrors?\s*[=:]\s*(0|false|none|no)\s*([,;.)]|$)|\bwarn(ing)?\b|\bskipping\b/i

/** The lines of Python before the one with the exception. */
const traceback = /^(Traceback \(most recent call last\):|Exception in thread )|^\s+(File "|raise |\^|~)|^ {4}\S/

/** Time and level, as llama-server puts them before its lines, "0.00.046.978 E ", or mlx-lm, "2026-11-26 01:46:09,055 - ERROR - ". */
const logPrefix = /^(?:[\d.]+ )?([DIWEF]) (?=\S)|^[\d-]+ [\d:,]+ - ([DIWEF])[A-Z]+ - /

/** The first line that reports trouble, made fit for a sentence. */
export function findFirstError(lines: readonly string[]): string | undefined {
  for (const line of lines) {
    // Python's last line alone says what went wrong.
    if (traceback.test(line)) continue
    const text = readable(line)
    const [, short, long] = logPrefix.exec(text) ?? []
    const level = short ?? long
    const isError = level === undefined ? trouble.test(text) && !harmless.test(text) : level === 'E' || level === 'F'
    if (isError) return text.replace(logPrefix, '')
  }
  return undefined
}

/** The last lines that are not empty, oldest first. */
export const lastLines = (text: string, count: number): string[] =>
  text
    .split('\n')
    .map(readable)
    .filter((line) => line !== '')
    .slice(-count)

/** Without control characters and invalid UTF-8, and short. */
function readable(line: string): string {
  const clean = stripVTControlCharacters(line.slice(0, maxLineLength * 4))
    .replaceAll(/[\p{Cc}\uFFFD\s]+/gu, ' ')
    .trim()
  return clean.length > maxLineLength ? `${clean.slice(0, maxLineLength)}…` : clean
}

/** The first error of a start is near its beginning; a server that writes more than this before it has long been noise. */
const searchBytes = 4 * 1024 * 1024
const tailBytes = 256 * 1024
const tailLines = 200

/**
 * What the output of the current run from `offset` on, as far as it is kept, says about an exit. Out of a start the first error counts,
 * since the others follow from it; a server that served for hours may have complained about requests all along, so there it is the
 * first of the last lines.
 */
export async function readEvidence(
  log: ReadableOutput,
  { offset, outOf }: { offset: number; outOf: 'start' | 'serving' },
): Promise<Evidence> {
  const extent = await log.extent()
  if (extent === undefined) return { tail: [] }
  const { fileId, to } = extent
  const first = Math.max(offset, extent.from)
  const tail = lastLines(await textBetween(log, { fileId, from: Math.max(first, to - tailBytes), to }), tailLines)
  const searchTo = Math.min(to, first + searchBytes)
  const early = outOf === 'start' ? await firstErrorBetween(log, { fileId, from: first, to: searchTo }) : undefined
  const firstError = early ?? findFirstError(tail)
  return firstError === undefined ? { tail } : { firstError, tail }
}

interface Range {
  readonly fileId: string
  readonly from: number
  readonly to: number
}

async function textBetween(log: ReadableOutput, range: Range): Promise<string> {
  const lines: string[] = []
  for await (const read of readLines(log, range)) lines.push(...read.lines.map(({ text }) => text))
  return lines.join('\n')
}

async function firstErrorBetween(log: ReadableOutput, range: Range): Promise<string | undefined> {
  for await (const { lines } of readLines(log, range)) {
    const found = findFirstError(lines.map(({ text }) => text))
    if (found !== undefined) return found
  }
  return undefined
}
