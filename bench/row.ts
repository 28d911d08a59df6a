import type { World } from './world.ts'

/** `more`: a count that grew; empty for other units. */
export type Unit = '' | 's' | 'ms' | '%' | 'MiB' | 'MB' | 'kB' | '/min' | 'more'

/** One line of the table. */
export interface Row {
  readonly what: string
  readonly unit: Unit
  /** One per run; the median is the figure. */
  readonly values: readonly number[]
  /** What LLMKube's Go agent needs for the same; absent where it was not measured. */
  readonly goAgent?: number
  /** At most this. */
  readonly goal?: number
  /** Printed under the table. */
  readonly note?: string
  /** Printed under the table where the goal is missed. */
  readonly missedBecause?: string
}

/** How much is measured. */
export interface Extent {
  readonly startRuns: number
  readonly lifeRuns: number
  readonly togetherRuns: number
  readonly adoptionRuns: number
  readonly hungRuns: number
  readonly supervisedSeconds: number
  /** Heartbeats come every 45 s: a multiple of it counts them evenly. */
  readonly idleSeconds: number
  readonly emptySeconds: number
  readonly commandCalls: number
  readonly fanOutRuns: number
  readonly headerRuns: number
  readonly downloadRuns: number
  readonly downloadKills: number
  readonly thousandRuns: number
  /** Pages that are opened. */
  readonly windowRuns: number
  /** So long a page is told of changes. */
  readonly windowSeconds: number
  /** So long the agent is watched for each state of a window that nobody sees. */
  readonly windowUnseenSeconds: number
  readonly shellRuns: number
  /** Starts and stops of servers; 0 = not measured. */
  readonly lives: number
}

/** What this machine has not what it takes for, and why. */
export interface Skipped {
  readonly skipped: string
}

/** Rows that are measured together. */
export interface Group {
  readonly name: string
  readonly measure: (world: World, extent: Extent) => Promise<Row[] | Skipped>
}
