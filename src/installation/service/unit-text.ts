import { createHash } from 'node:crypto'
import { splitCommandLine } from './service-plan.ts'

/** What a file of launchd or systemd says, read back. */
export interface UnitContent {
  /** The label of launchd; the name of the file is all that systemd has. */
  readonly label?: string
  readonly words: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  readonly workingDirectory?: string
  readonly errorFile?: string
  readonly exitTimeoutS?: number
  readonly userName?: string
  /** Every value by its path, so that two files can be compared whatever their format. */
  readonly values: ReadonlyMap<string, string>
}

/** One sentence fragment: why a file cannot be read as one of launchd or systemd; completes "<file> …". */
export class UnitTextError extends Error {
  override readonly name = 'UnitTextError'
}

const advice = 'Written by metal-agent install; metal-agent service set changes it.'
const marker = /^(?:# |<!-- )Written by metal-agent install; .* sha256:([0-9a-f]{64})(?: -->)?$/

/** The text with a line of comment that tells whether somebody changed it since. It stands behind the first `after` lines. */
export function marked(text: string, after: number, comment: readonly [begin: string, end: string]): string {
  const lines = text.split('\n')
  lines.splice(after, 0, `${comment[0]}${advice} sha256:${digest(text)}${comment[1]}`)
  return lines.join('\n')
}

/** Whether the text is as {@link marked} left it. */
export function isUntouched(text: string): boolean {
  const lines = text.split('\n')
  const at = lines.findIndex((line) => marker.test(line))
  const [, stated] = marker.exec(lines[at] ?? '') ?? []
  return stated !== undefined && digest(lines.toSpliced(at, 1).join('\n')) === stated
}

/** Whether {@link marked} wrote it, whatever became of it since. */
export const bearsMark = (text: string): boolean => text.split('\n').some((line) => marker.test(line))

/** The values with the command line taken apart, so that a person sees which flag is another. */
export function byFlag(
  values: ReadonlyMap<string, string>,
  key: string,
  words: readonly string[],
): Map<string, string> {
  const split = splitCommandLine(words)
  const rest = [...values].filter(([name]) => name !== key)
  if (!split) return new Map([[key, words.join(' ')], ...rest])
  const flags = [...split.flags].map(([name, value]) => [`--${name}`, value] as const)
  return new Map([['command', split.program.join(' ')], ...flags, ...rest])
}

const digest = (text: string): string => createHash('sha256').update(text).digest('hex')

/** Keys of variables of the environment, whose values may be secrets and are shown nowhere. */
const ofVariable = /^Environment(?:Variables)?\./

/** One line for each value that differs, as "key: before → after". */
export function differences(before: UnitContent['values'], after: UnitContent['values']): string[] {
  const keys = new Set([...before.keys(), ...after.keys()])
  return [...keys].flatMap((key) => {
    const [was, is] = [before.get(key), after.get(key)]
    if (was === is) return []
    if (ofVariable.test(key)) {
      return [
        `${key}: ${was === undefined ? 'is set' : is === undefined ? 'is not set any more' : 'has another value'}`,
      ]
    }
    return [`${key}: ${was ?? '(absent)'} → ${is ?? '(absent)'}`]
  })
}
