/** Facts beside a log message; never a secret. */
export type LogFields = Readonly<Record<string, unknown>>

/** What the core asks of a log: a constant message and fields. */
export interface Logger {
  debug(message: string, fields?: LogFields): void
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
}
