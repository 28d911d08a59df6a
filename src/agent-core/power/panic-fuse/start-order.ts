/** A model that is to start. */
export interface AskedStart {
  readonly key: string
  /** Undefined where it is not known. */
  readonly needBytes: number | undefined
}

export interface StartSituation {
  /** Models start one after the other. */
  readonly isInTurn: boolean
  /** Models above half the budget wait for a person. */
  readonly isHeld: boolean
  /** Undefined where the machine's memory is not known: then no need counts as small. */
  readonly budgetBytes: number | undefined
  /** All that wait, this one among them. */
  readonly waiting: readonly AskedStart[]
  /** The model that loads now. */
  readonly loading: string | undefined
  /** Others may ask in a moment, and be smaller. */
  readonly isGathering: boolean
}

export type StartVerdict =
  | { readonly kind: 'go' }
  | { readonly kind: 'held' }
  /** `behind`: the key of the model that goes first; undefined where that is not known yet. */
  | { readonly kind: 'inTurn'; readonly behind: string | undefined }

/** Whether a model may start after the machine ended while models ran: the smallest first, since it is the largest that may end it again. */
export function verdictOn(start: AskedStart, situation: StartSituation): StartVerdict {
  const { isInTurn, waiting, loading, isGathering } = situation
  if (isKept(start, situation)) return { kind: 'held' }
  if (!isInTurn) return { kind: 'go' }
  if (loading !== undefined && loading !== start.key) return { kind: 'inTurn', behind: loading }
  if (isGathering) return { kind: 'inTurn', behind: undefined }
  const [first] = waiting.filter((other) => !isKept(other, situation)).toSorted(bySize)
  return first === undefined || first.key === start.key ? { kind: 'go' } : { kind: 'inTurn', behind: first.key }
}

/** A need that is not known may be any. */
const isKept = (
  { needBytes = Infinity }: AskedStart,
  { isHeld, budgetBytes }: Pick<StartSituation, 'isHeld' | 'budgetBytes'>,
): boolean => isHeld && (budgetBytes === undefined || needBytes > budgetBytes / 2)

const bySize = (a: AskedStart, b: AskedStart): number => {
  const [first, second] = [a.needBytes ?? Infinity, b.needBytes ?? Infinity]
  if (first !== second) return first < second ? -1 : 1
  return a.key < b.key ? -1 : 1
}
