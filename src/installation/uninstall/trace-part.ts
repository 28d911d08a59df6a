import type { TraceKind, TracePlace } from '../../contract/uninstall.ts'

/** One sentence: what was not removed, why, and what to do. */
export class UninstallError extends Error {
  override readonly name = 'UninstallError'
}

/** What a look has found. */
export interface Found {
  /** What is removed. */
  readonly places: readonly TracePlace[]
  /** What is left alone, one sentence each. */
  readonly stays?: readonly string[]
  /** Lines for a shell that remove the places. Absent = `rm` of each. */
  readonly byHand?: readonly string[]
}

/** Looks for one kind of trace, and removes what a look finds. */
export interface TracePart {
  readonly kind: TraceKind
  /** Undefined where there is nothing to be said. Throws where that cannot be found out. */
  look(): Promise<Found | undefined>
  /** All that {@link look} finds by then. Throws with a sentence where a part of it is left. */
  remove(): Promise<void>
}
