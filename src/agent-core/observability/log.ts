import { styleText } from 'node:util'
import type { LogFields, Logger } from './logger.ts'
import type { LogLevel } from '../settings/settings.ts'
import { messageOf } from '../util/message-of.ts'
import { isSecretName, redacted, redactText } from '../util/redact.ts'
import { cleanLines, cleanText } from '../../contract/clean-text.ts'

interface LogStream {
  readonly isTTY?: boolean | undefined
  write(text: string): unknown
}

export interface LogOptions {
  readonly level: LogLevel
  readonly stream?: LogStream
}

export interface Log extends Logger {
  setLevel(level: LogLevel): void
}

/** The least severe first. */
const severities: readonly LogLevel[] = ['debug', 'info', 'warn', 'error']

/** One line per message on standard error, or on the stream given, as text in a terminal and as JSON elsewhere; secrets are redacted and nothing is thrown. */
export function createLog({ level, stream = process.stderr }: LogOptions): Log {
  const terminal = stream.isTTY === true
  const text = terminal && !process.env['NO_COLOR'] ? colourLine : textLine
  const line = terminal ? text : jsonLine
  let least = severities.indexOf(level)
  const at =
    (severity: LogLevel) =>
    (message: string, fields: LogFields = {}) => {
      if (severities.indexOf(severity) >= least) stream.write(line(entryOf(severity, message, fields)))
    }
  const setLevel = (changed: LogLevel) => {
    least = severities.indexOf(changed)
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), setLevel }
}

interface Entry {
  readonly ts: string
  readonly level: LogLevel
  readonly message: string
  readonly fields: readonly (readonly [string, LogValue])[]
}

/** Without secrets, cycles and what cannot be printed. */
function entryOf(level: LogLevel, message: string, given: LogFields): Entry {
  const fields = Object.keys(given).flatMap((name): [string, LogValue][] => {
    const plain = isSecretName(name) ? redacted : toLogValue(read(given, name))
    return plain === undefined ? [] : [[name, plain]]
  })
  return { ts: new Date().toISOString(), level, message: cleanText(printable(message)), fields }
}

/** The keys every line has; a field that is called the same gives way. */
const ownKeys = new Set(['ts', 'level', 'msg'])

function jsonLine({ ts, level, message, fields }: Entry): string {
  const own = { ts, level, msg: message }
  const others = fields.map(([name, value]) => [ownKeys.has(name) ? `field_${name}` : name, value] as const)
  return `${JSON.stringify({ ...own, ...Object.fromEntries(others) })}\n`
}

function textLine({ ts, level, message, fields }: Entry): string {
  const pairs = fields.map(([name, value]) => ` ${name}=${textValue(value)}`)
  return `${ts} ${level.toUpperCase().padEnd(5)} ${message}${pairs.join('')}\n`
}

const colours = { debug: 'gray', info: 'cyan', warn: 'yellow', error: 'red' } as const

function colourLine(entry: Entry): string {
  const level = entry.level.toUpperCase().padEnd(5)
  const coloured = styleText(colours[entry.level], level, { validateStream: false })
  return textLine(entry).replace(level, coloured)
}

/** Quoted where a reader, or `cut -d' '`, could not see where it ends. */
function textValue(value: LogValue): string {
  if (typeof value === 'string') return /^[^\s"=\p{Cc}]+$/u.test(value) ? value : JSON.stringify(value)
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)
}

/** A value as it may stand in a log: plain, bounded, free of cycles and of what looks like a secret. */
type LogValue = string | number | boolean | null | LogValue[] | { [key: string]: LogValue }

/** Never throws, whatever it is given. */
export function toLogValue(value: unknown): LogValue | undefined {
  return convert(value, [])
}

/** `Name: message; caused by Name: message…`, down to the first cause. */
function describeError(error: Error): string {
  const parts: string[] = []
  const seen = new Set<unknown>()
  let current: unknown = error
  while (current instanceof Error && !seen.has(current) && parts.length < maxDepth) {
    seen.add(current)
    parts.push(`${current.name}: ${current.message || 'no message'}`)
    current = current.cause
  }
  if (typeof current === 'string') parts.push(current)
  return parts.join('; caused by ')
}

/** Enough for every field we log on purpose; a whole Kubernetes object is cut short. */
const maxDepth = 6
const maxEntries = 100
const maxTextLength = 8_192

function convert(value: unknown, ancestors: readonly object[]): LogValue | undefined {
  switch (typeof value) {
    case 'undefined':
      return undefined
    case 'string':
      return printable(value)
    case 'number':
      return Number.isFinite(value) ? value : String(value)
    case 'boolean':
      return value
    case 'bigint':
    case 'symbol':
      return String(value)
    case 'function':
      return '[function]'
    case 'object':
      return value === null ? null : convertObject(value, ancestors)
  }
}

function convertObject(value: object, ancestors: readonly object[]): LogValue {
  if (value instanceof Error) return printable(describeError(value))
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString()
  if (value instanceof URL) return printable(value.href)
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`
  if (ancestors.includes(value)) return '[circular]'
  if (ancestors.length >= maxDepth) return '[too deep]'
  const path = [...ancestors, value]
  if (value instanceof Set) return convertList([...value], path)
  if (Array.isArray(value)) return convertList(value, path)
  return convertEntries(value, path)
}

function convertList(items: readonly unknown[], path: readonly object[]): LogValue {
  const list = items.slice(0, maxEntries).map((item) => convert(item, path) ?? null)
  if (items.length > maxEntries) list.push(`[${items.length - maxEntries} more]`)
  return list
}

function convertEntries(value: object, path: readonly object[]): LogValue {
  const result: { [key: string]: LogValue } = {}
  const names: readonly unknown[] = value instanceof Map ? [...value.keys()] : Object.keys(value)
  for (const key of names.slice(0, maxEntries)) {
    const name = nameOf(key)
    const entry = isSecretName(name) ? redacted : convert(read(value, key), path)
    if (entry !== undefined) result[name] = entry
  }
  return result
}

/** The text of an object comes from its own `toString`, which may be anything. */
const nameOf = (key: unknown): string => (typeof key === 'object' && key !== null ? '[object]' : String(key))

/** A getter may throw, and a log line must not fail for it. */
function read(value: object, key: unknown): unknown {
  try {
    return value instanceof Map ? value.get(key) : Reflect.get(value, String(key))
  } catch (error) {
    return `[unreadable: ${messageOf(error)}]`
  }
}

/** Shortened first: a text of megabytes is not searched for secrets, and one at the cut goes with what follows it. */
const printable = (text: string): string => cut(redactText(cleanLines(text.slice(0, maxTextLength * 2))), text.length)

const cut = (text: string, length: number) =>
  length <= maxTextLength ? text : `${text.slice(0, maxTextLength)}… [${length - maxTextLength} more]`
