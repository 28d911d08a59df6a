import { cleanLines, cleanText } from '../contract/clean-text.ts'

/** The parts of a terminal that a verb writes to. */
interface Output {
  readonly isTTY?: boolean | undefined
  /** Width of the terminal, where it is one. */
  readonly columns?: number | undefined
  write(text: string): unknown
}

/** What a verb may know of the process it runs in. */
export interface CliIo {
  readonly stdout: Output
  readonly stderr: Output
  /** Asks the person at the terminal, and answers the line; undefined where the input has ended. Absent where there is no terminal. */
  readonly ask?: (question: string) => Promise<string | undefined>
  readonly env: NodeJS.ProcessEnv
  readonly platform: NodeJS.Platform
  readonly homeDir: string
  readonly temporaryDir: string
  readonly cwd: string
  /** What starts this command once more; absent where this is not the command's own process. */
  readonly self?: readonly [program: string, ...args: string[]]
  /** Where the built window is. */
  readonly windowFolder: string
}

/** Whether a person answered a question by y or yes. */
export const isYes = (answer: string | undefined): boolean => /^y(es)?$/i.test(answer?.trim() ?? '')

export const exitCodes = {
  done: 0,
  failed: 1,
  wrongUsage: 2,
  noAgent: 3,
  refused: 4,
  notAvailable: 5,
  doesNotFit: 6,
} as const

/** Whether shapes beyond ASCII can be shown. */
export function usesUnicode({ env, platform }: CliIo): boolean {
  const locale = env['LC_ALL'] || env['LC_CTYPE'] || env['LANG']
  return locale === undefined ? platform === 'darwin' : /utf-?8/i.test(locale)
}

const escape = '\u001b'

/** The cursor goes home, the screen and what scrolled out of it are cleared. */
export const clearScreen = `${escape}[H${escape}[2J${escape}[3J`
export const eraseLine = `\r${escape}[K`

/** What we write ourselves: the two above, and the colours of styleText. Not those for hidden and blinking text. */
const ownSequences = new RegExp(
  `(${escape}\\[H${escape}\\[2J${escape}\\[3J|\r${escape}\\[K|${escape}\\[(?:[012]|22|39|3[0-7]|9[0-7])m)`,
  'u',
)

/** The one way out for all that a verb prints: no other sequence reaches the terminal. */
export function terminalOf(output: Output): Output {
  const write = (text: string): unknown =>
    output.write(
      text
        .split(ownSequences)
        .map((part, index) => (index % 2 === 1 ? part : cleanLines(part)))
        .join(''),
    )
  return {
    get isTTY() {
      return output.isTTY
    },
    get columns() {
      return output.columns
    },
    write,
  }
}

/** Columns as wide as their widest cell; the last one takes what it needs. */
export function columns(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows.map((row) => row.map(cleanText))]
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)))
  const text = lines.map((line) => line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '))
  return text.map((line) => `${line.trimEnd()}\n`).join('')
}
