import type { World } from './world.ts'

/** Empty for a plain count. */
export type Unit = '' | 's' | 'ms' | '%' | 'MiB' | '/min'

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
  readonly headerRuns: number
  readonly downloadRuns: number
  readonly downloadKills: number
}

/** Rows that are measured together. */
export interface Group {
  readonly name: string
  readonly measure: (world: World, extent: Extent) => Promise<Row[]>
}
