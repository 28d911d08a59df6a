import { parseByteCount, parseDuration } from '../../contract/format.ts'

/** Go's `flag` syntax, so that a command line written for the Go agent means the same here. */
export type FlagKind = 'string' | 'bool' | 'int' | 'float' | 'duration' | 'bytes'
/** A duration is a number of milliseconds, a size one of bytes. */
export type FlagValue = string | boolean | number

export interface FlagSpec {
  readonly kind: FlagKind
  readonly default: FlagValue
  /** Another spelling of this flag; the last one given wins. */
  readonly aliasOf?: string
}

export interface ParsedFlags {
  readonly values: ReadonlyMap<string, FlagValue>
  /** Canonical names of the flags that stood on the command line. */
  readonly given: ReadonlySet<string>
  /** The same as they were written, by canonical name. */
  readonly texts: ReadonlyMap<string, string>
  readonly rest: readonly string[]
  readonly help: boolean
}

/** A command line that cannot be understood; the message is the one sentence to print before exiting with 2. */
export class FlagError extends Error {
  override readonly name = 'FlagError'
}

/** Throws {@link FlagError}. `--` and the first word that is not a flag end the flags; both leave the others in `rest`. */
export function parseGoFlags(table: Readonly<Record<string, FlagSpec>>, args: readonly string[]): ParsedFlags {
  const values = new Map<string, FlagValue>()
  for (const [name, spec] of Object.entries(table)) if (spec.aliasOf === undefined) values.set(name, spec.default)
  const given = new Set<string>()
  const texts = new Map<string, string>()
  let help = false
  let at = 0
  for (; at < args.length; at++) {
    const word = args[at] ?? ''
    if (word === '--') {
      at++
      break
    }
    if (!word.startsWith('-') || word === '-') break
    const { name, inline } = splitFlag(word)
    const spec = Object.hasOwn(table, name) ? table[name] : undefined
    if (spec === undefined) {
      if (name !== 'help' && name !== 'h') throw unknownFlag(name, Object.keys(table))
      help = true
      continue
    }
    let text = inline ?? (spec.kind === 'bool' ? 'true' : undefined)
    if (text === undefined) {
      text = args[++at]
      if (text === undefined) throw new FlagError(`--${name} needs ${wanted[spec.kind]} after it.`)
    }
    const value = parseValue(spec.kind, text)
    if (value === undefined) throw new FlagError(`--${name} wants ${wanted[spec.kind]}, not ${JSON.stringify(text)}.`)
    const canonical = spec.aliasOf ?? name
    values.set(canonical, value)
    given.add(canonical)
    texts.set(canonical, text)
  }
  return { values, given, texts, rest: args.slice(at), help }
}

/** The candidate that takes the fewest single-letter edits, if that is few enough to be a slip of the hand. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  const limit = Math.max(2, Math.floor(word.length / 3))
  let best: { name: string; distance: number } | undefined
  for (const name of candidates) {
    const distance = editDistance(word, name)
    if (distance <= limit && distance < (best?.distance ?? Infinity)) best = { name, distance }
  }
  return best?.name
}

/** What a flag without a default has. */
export const emptyValues: Readonly<Record<FlagKind, FlagValue>> = {
  string: '',
  bool: false,
  int: 0,
  float: 0,
  duration: 0,
  bytes: 0,
}

const wanted: Record<FlagKind, string> = {
  string: 'a value',
  bool: 'true or false',
  int: 'a whole number',
  float: 'a number',
  duration: 'a duration such as 10s, 2m or 1m30s',
  bytes: 'a size such as 512Ki, 20Mi or 1Gi',
}

function splitFlag(word: string): { name: string; inline: string | undefined } {
  const body = word.replace(/^--?/, '')
  if (body === '' || body.startsWith('-') || body.startsWith('=')) {
    throw new FlagError(`${JSON.stringify(word)} is not a flag; flags look like --name, --name value or --name=value.`)
  }
  const equals = body.indexOf('=')
  return equals < 0
    ? { name: body, inline: undefined }
    : { name: body.slice(0, equals), inline: body.slice(equals + 1) }
}

function unknownFlag(name: string, known: readonly string[]): FlagError {
  const hint = nearest(name, known)
  const advice = hint === undefined ? 'metal-agent --help lists all flags' : `did you mean --${hint}?`
  return new FlagError(`There is no flag --${name}: ${advice}${hint === undefined ? '.' : ''}`)
}

function parseValue(kind: FlagKind, text: string): FlagValue | undefined {
  switch (kind) {
    case 'string':
      return text
    case 'bool':
      if (/^(1|t|T|TRUE|true|True)$/.test(text)) return true
      return /^(0|f|F|FALSE|false|False)$/.test(text) ? false : undefined
    case 'int':
      return parseInteger(text)
    case 'float':
      return /^[-+]?(\d+(?:\.\d*)?|\.\d+)([eE][-+]?\d+)?$/.test(text) ? Number(text) : undefined
    case 'duration':
      return parseDuration(text)
    case 'bytes':
      return parseByteCount(text)
  }
}

/** Go reads 0x, 0o, 0b and a leading 0 as another base. */
function parseInteger(text: string): number | undefined {
  const match = /^([-+]?)(0[xX][\da-fA-F]+|0[bB][01]+|0[oO][0-7]+|0[0-7]+|[1-9]\d*|0)$/.exec(text)
  const digits = match?.[2]
  if (digits === undefined) return undefined
  const size = Number(/^0\d/.test(digits) ? `0o${digits}` : digits)
  if (!Number.isSafeInteger(size)) return undefined
  return match?.[1] === '-' && size !== 0 ? -size : size
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const substitution = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(substitution, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
