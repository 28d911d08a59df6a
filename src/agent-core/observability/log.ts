import { styleText } from 'node:util'
import electronLog from 'electron-log/node'
import type { LogFormat, LogLevel } from '../settings/settings.ts'
import { cleanText } from '../../contract/clean-text.ts'
import { isSecretName, printable, toLogValue, type LogValue } from './log-value.ts'
import type { LogFields, Logger } from './logger.ts'

interface LogStream {
  readonly isTTY?: boolean | undefined
  write(text: string): unknown
}

export interface LogOptions {
  readonly level: LogLevel
  /** `auto`: text on a terminal, JSON lines otherwise. */
  readonly format: LogFormat
  readonly stream?: LogStream
}

export interface Log extends Logger {
  setLevel(level: LogLevel): void
}

/** One line per message on standard error, or on the stream given; secrets are redacted and nothing is thrown. */
export function createLog({ level, format, stream = process.stderr }: LogOptions): Log {
  const terminal = stream.isTTY === true
  const text = terminal && !process.env['NO_COLOR'] ? colourLine : textLine
  const line = format === 'json' || (format === 'auto' && !terminal) ? jsonLine : text
  const log = electronLog.create({ logId: 'metal-agent' })
  log.transports.console.level = false
  log.transports.file.level = false
  const write = ({ date, data: [entry] }: { date: Date; data: unknown[] }) => {
    if (entry instanceof Entry) stream.write(line(date, entry))
  }
  const transport = Object.assign(write, { level, transforms: [] })
  log.transports['stream'] = transport
  const at =
    (severity: LogLevel) =>
    (message: string, fields: LogFields = {}) =>
      log[severity](new Entry(severity, message, fields))
  const setLevel = (changed: LogLevel) => {
    transport.level = changed
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), setLevel }
}

class Entry {
  readonly level: LogLevel
  readonly message: string
  readonly fields: LogFields
  constructor(level: LogLevel, message: string, fields: LogFields) {
    this.level = level
    this.message = message
    this.fields = fields
  }

  /** Without secrets, cycles and what cannot be printed. */
  plain(): { message: string; fields: [string, LogValue][] } {
    const fields = Object.entries(this.fields).flatMap(([name, value]): [string, LogValue][] => {
      const plain = isSecretName(name) ? '[redacted]' : toLogValue(value)
      return plain === undefined ? [] : [[name, plain]]
    })
    return { message: cleanText(printable(this.message)), fields }
  }
}

/** The keys every line has; a field that is called the same gives way. */
const ownKeys = new Set(['ts', 'level', 'msg'])

function jsonLine(date: Date, entry: Entry): string {
  const { message, fields } = entry.plain()
  const own = { ts: date.toISOString(), level: entry.level, msg: message }
  const others = fields.map(([name, value]) => [ownKeys.has(name) ? `field_${name}` : name, value] as const)
  return `${JSON.stringify({ ...own, ...Object.fromEntries(others) })}\n`
}

function textLine(date: Date, entry: Entry): string {
  const { message, fields } = entry.plain()
  const pairs = fields.map(([name, value]) => ` ${name}=${textValue(value)}`)
  return `${date.toISOString()} ${entry.level.toUpperCase().padEnd(5)} ${message}${pairs.join('')}\n`
}

const colours = { debug: 'gray', info: 'cyan', warn: 'yellow', error: 'red' } as const

function colourLine(date: Date, entry: Entry): string {
  const level = entry.level.toUpperCase().padEnd(5)
  const coloured = styleText(colours[entry.level], level, { validateStream: false })
  return textLine(date, entry).replace(level, coloured)
}

/** Quoted where a reader, or `cut -d' '`, could not see where it ends. */
function textValue(value: LogValue): string {
  if (typeof value === 'string') return /^[^\s"=\p{Cc}]+$/u.test(value) ? value : JSON.stringify(value)
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)
}
