/** What a new server meets. All in bytes. */
export interface Room {
  /** What all servers together may hold. */
  readonly budgetBytes: number
  /** The new server's own budget where its Model sets one: see `limitOf`. */
  readonly ownBudgetBytes?: number
  /** What running and starting servers hold or will hold: for each the larger of estimate and measured footprint. */
  readonly committedBytes: number
  /** What the system could give now; absent where it does not tell. */
  readonly availableBytes?: number
  /** What starting servers will still take of that. */
  readonly promisedBytes: number
}

/** By how many bytes something does not fit; 0 where it does. */
export interface Shortage {
  /** Beyond its Model's own budget. */
  readonly own: number
  /** Beyond the budget for all. */
  readonly budget: number
  /** Beyond what is really available. */
  readonly available: number
}

/**
 * What all servers may hold once this one is admitted. A Model's own budget replaces the machine's for this Model: it
 * bounds what the Model itself needs, and where it is the larger one the sum may grow up to it.
 */
export function limitOf({ budgetBytes, ownBudgetBytes }: Room): number {
  return Math.max(budgetBytes, ownBudgetBytes ?? 0)
}

export function shortageOf(needBytes: number, room: Room): Shortage {
  const { ownBudgetBytes = Infinity, availableBytes = Infinity } = room
  return {
    own: Math.max(0, needBytes - ownBudgetBytes),
    budget: Math.max(0, room.committedBytes + needBytes - limitOf(room)),
    available: Math.max(0, needBytes + room.promisedBytes - availableBytes),
  }
}

/** Equality fits. */
export function fits(needBytes: number, room: Room): boolean {
  const { own, budget, available } = shortageOf(needBytes, room)
  return own === 0 && budget === 0 && available === 0
}
