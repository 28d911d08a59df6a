/** The system does not go to sleep by itself until it is released. */
export interface AwakeHold {
  /** False where it ended by itself. */
  readonly isHeld: boolean
  release(): void
}

/** Begins a hold; what carries it is another for the app than for the command. */
export type HoldAwake = () => AwakeHold
