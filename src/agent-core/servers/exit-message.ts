import { basename } from 'node:path'
import { guessCause } from './crash-cause.ts'
import type { MemoryAtEnd } from './memory-watch.ts'
import type { Evidence, Exit, ExitCause, Hang } from './server-state.ts'

export interface ExitStory extends Exit {
  readonly executable: string
  readonly cause: ExitCause
  readonly outOf: 'start' | 'serving'
  readonly system: 'darwin' | 'linux'
  readonly evidence?: Evidence | undefined
  readonly memory?: MemoryAtEnd | undefined
  /** Of the machine. */
  readonly totalBytes: number
  readonly stallMs: number
  /** Of the cause `hung`. */
  readonly hang?: Hang | undefined
  /** What it took and why it was ended; with the cause `exceeded` alone. */
  readonly why?: string | undefined
  /** What a person sets `stallMs` by. */
  readonly stallSetting?: string | undefined
}

/** What ended, why as far as is known, and what to do where we know. */
export function exitMessage(story: ExitStory): string {
  const name = basename(story.executable)
  switch (story.cause) {
    case 'stopped':
      return stoppedMessage(story.executable)
    case 'stalled': {
      const advice = story.stallSetting === undefined ? '' : `; if this model needs longer, raise ${story.stallSetting}`
      return `${name} made no progress for ${story.stallMs / 1000} s while starting (its memory did not grow, it wrote nothing and did not get ready), so it was ended${advice}.`
    }
    case 'hung':
      return `${name} ${hangs[story.hang ?? 'silent']}, so it was ended.`
    case 'exceeded':
      return story.why ?? `${name} took more memory than it was admitted with, so it was ended.`
    case 'portTaken':
      return `${name} was ended because something else answers on its port.`
    case 'itself': {
      const when = story.outOf === 'start' ? 'while starting' : 'while it was serving'
      const how = howItEnded(story)
      const lastWords = story.outOf === 'start' ? story.evidence?.tail.at(-1) : undefined
      const why = story.evidence?.firstError ?? lastWords
      const what = why === undefined ? `${name} ${how} ${when}.` : `${name} ${how} ${when}: ${closed(why)}`
      const guess = guessedCause(story)
      return guess === undefined ? what : `${what} ${guess}`
    }
  }
}

/** Of a server that ended by itself: the probable cause and what to do about it, where a known one fits. */
export const guessedCause = (story: ExitStory): string | undefined =>
  story.cause === 'itself' ? guessCause({ ...story, tail: [], ...story.evidence }) : undefined

function howItEnded({ code, signal }: Exit): string {
  if (signal !== null) return `was ended by ${signal}`
  if (code !== null) return `exited with code ${code}`
  return 'ended (its exit code is not known, because the agent that had started it was gone)'
}

const hangs: Readonly<Record<Hang, string>> = {
  silent: 'hung (its process was there, but it neither answered nor worked)',
  suspended: 'was suspended (by SIGSTOP, a terminal or a debugger) and answered no more',
  failing: 'answered its health check with an error, over and over',
  stuck: 'hung (it did not advance any of the requests in flight for minutes)',
}
export const hangsMessage = (pid: number | undefined): string =>
  `Process ${pid ?? 'unknown'} did not end although it was killed: it hangs in the kernel, and only a restart of the machine may help.`

export const stoppedMessage = (executable: string): string => `${basename(executable)} was stopped.`

const closed = (text: string) => (/[.!?…]$/.test(text) ? text : `${text}.`)
