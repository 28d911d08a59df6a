import type { ProgramEnd } from './power-source.ts'

const longestQuote = 200

/** Of a program that ended by itself: how, and the first line of what it said. */
export function endedWords(
  program: string,
  { code, signal, stderr }: Extract<ProgramEnd, { readonly kind: 'exited' }>,
): string {
  const [line = ''] = stderr.trim().split('\n')
  const how = signal === null ? `exit code ${code ?? 0}` : signal
  return `${program} ended (${how})${line === '' ? '' : `: ${line.slice(0, longestQuote)}`}.`
}

export const startWords = (
  program: string,
  end: Extract<ProgramEnd, { readonly kind: 'asked' | 'notStarted' }>,
): string =>
  end.kind === 'asked' ? 'Power is not measured any more.' : `${program} cannot be started: ${end.message}.`
