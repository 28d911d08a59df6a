import type { z } from 'zod'

/** What a value is: how people write and read it, and what its flag takes. Durations are milliseconds. */
export type SettingKind =
  | 'text'
  | 'choice'
  | 'path'
  /** A path, or a name that is looked for in PATH. */
  | 'executable'
  /** Separated by commas. */
  | 'list'
  | 'port'
  | 'portRange'
  | 'count'
  | 'bytes'
  | 'duration'
  | 'fraction'
  | 'number'
  | 'switch'

export const settingGroups = ['Cluster', 'Models', 'llama-server', 'Memory', 'Publishing', 'Power', 'Agent'] as const

/** From when a change counts; completes "<setting> …" and "A change …". */
export const countsTexts = {
  now: 'counts at once',
  nextDownload: 'counts for each download from its start',
  nextServer: 'counts for each server from its next start',
  nextAgent: 'counts from the next start of the agent',
} as const

/** One setting of the agent. Flags, their help, the files of settings, `metal-agent settings` and docs/settings.md are made of such rows. */
export interface SettingRow {
  readonly kind: SettingKind
  /** Each message completes "<name> …"; the one about no value at all says everything that is accepted. */
  readonly schema: z.ZodType
  /** Absent = as `defaultMeans` says. */
  readonly default?: string | number | boolean | readonly string[]
  readonly defaultMeans?: string
  /** The value at the start where neither a flag nor a person sets one, for a setting in which no value means something else. */
  readonly startsAs?: string
  /** There is no agent without a value; where it runs decides about the default. */
  readonly required?: true
  readonly group: (typeof settingGroups)[number]
  /** Without dashes. */
  readonly flag: string
  readonly aliases?: readonly string[]
  /** What the flag means alone; a value then stands only after "=". */
  readonly bare?: string
  /** A flag of the Go agent keeps what that takes: `what` completes "…; <what>" in the help, `schema` is what `read` makes of it. */
  readonly flagTakes?: {
    readonly what: string
    readonly why: string
    readonly schema?: z.ZodType
    /** Undefined = as if the flag were not given. */
    read?(given: string | number): unknown
  }
  readonly help: string
}

/** A setting that a person may change while the agent runs. */
export interface EditableRow extends SettingRow {
  /** In `metal-agent settings`; absent = as the flag. */
  readonly spelled?: string
  readonly counts: keyof typeof countsTexts
  /**
   * `page`: a page in a browser may set it too. `shell`: chooses an executable or what else amounts to running commands, reading files as
   * this user or serving another cluster, so only a person with a shell or the app on this machine may.
   */
  readonly trust: 'page' | 'shell'
}

/** The same names, with the value made of each row. */
export function mapRows<Name extends string, Row extends SettingRow, Made>(
  rows: Readonly<Record<Name, Row>>,
  make: (row: Row, name: Name) => Made,
): Record<Name, Made> {
  const entries = Object.entries<Row>(rows).map(([name, row]) => [name, make(row, name as Name)])
  return Object.fromEntries(entries) as Record<Name, Made>
}
