/** The system does not go to sleep by itself until it is released. */
export interface AwakeHold {
  /** False where it ended by itself. */
  readonly isHeld: boolean
  release(): void
}

/** Of a hold that ended although it was not released. */
export type HowItEnded =
  { readonly error: Error } | { readonly code: number | null; readonly signal: NodeJS.Signals | null }

/** Begins a hold, or throws; what carries it is another for the app than for the command. */
export type HoldAwake = (onEnded: (how: HowItEnded) => void) => AwakeHold
