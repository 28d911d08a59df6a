import type { CommandRunner } from '../../agent-core/platform/command.ts'
import type { Platform } from '../../agent-core/platform/platform.ts'

/** `notHere`: this machine has not what the question is about. */
export type Verdict = 'asExpected' | 'different' | 'notHere' | 'couldNotAsk'

export interface Finding {
  readonly found: string
  readonly verdict: Verdict
}

/** What a check may ask with. */
export interface Asker {
  /** A command of the system, by its absolute path, within a time limit. */
  readonly run: CommandRunner
  readonly platform: Platform
  readonly env: NodeJS.ProcessEnv
  /** For what a check has to make. */
  readonly temporaryDir: string
  /** What a check leaves to be taken away once it has answered or its time is up; disposed from then on. */
  readonly leftovers: AsyncDisposableStack
}

/** One question about this machine that the agent relies on the answer of. */
export interface Check {
  readonly id: string
  readonly asks: string
  readonly expected: string
  /** Only a Mac can answer it. */
  readonly isForMacs: boolean
  /** Whatever it throws is a question that could not be asked. */
  readonly answer: (asker: Asker) => Promise<Finding>
}

export const judged = (isAsExpected: boolean, found: string): Finding => ({
  found,
  verdict: isAsExpected ? 'asExpected' : 'different',
})

export const notHere = (found: string): Finding => ({ found, verdict: 'notHere' })

export const notAsked = (why: string): Finding => ({ found: why, verdict: 'couldNotAsk' })

/** What a command printed, for a report: standard output, else standard error, else its exit code. */
export function printed({ exitCode, stdout, stderr = '' }: Awaited<ReturnType<CommandRunner>>): string {
  const text = [stdout, stderr].map((part) => part.trim()).find((part) => part !== '')
  return text === undefined ? `nothing, exit code ${exitCode}` : text.replaceAll(/\s+/g, ' ').slice(0, longestFound)
}

const longestFound = 300
