import type { FuseState } from './fuse-state.ts'

/** A start of a model as the ledger of servers has it. */
export interface NotedStart {
  /** Empty where the system did not say. */
  readonly bootId: string
  readonly intendedAt: string
}

/** This boot, and the starts of models that the ledger of servers found, those of earlier boots among them. */
export interface Boot {
  /** Empty where the system does not say. */
  readonly bootId: string
  readonly starts: readonly NotedStart[]
}

/** More say no more than these. */
const endsKept = 10
/** As many as the file takes. */
const toldKept = 1_000
/** So many ends soon after a start are no accident. */
const soonEndsForHold = 2

/** The starts of models that an end of the machine cut short, seen from the boot `bootId`; none after an orderly shutdown. */
export function cutShort(state: FuseState, bootId: string, starts: readonly NotedStart[]): readonly NotedStart[] {
  if (bootId === '') return []
  const isCounted = (before: string) => state.ends.some((end) => end.bootId === before)
  return starts.filter(
    ({ bootId: before }) => before !== '' && before !== bootId && before !== state.leftIn && !isCounted(before),
  )
}

/** What is known after such an end. `starts` are those that it cut short. */
export function withEnd(
  state: FuseState,
  starts: readonly NotedStart[],
  { noticedAt, hasReport }: { readonly noticedAt: string; readonly hasReport: boolean },
): FuseState {
  const [last] = starts.toSorted((a, b) => Date.parse(b.intendedAt) - Date.parse(a.intendedAt))
  if (!last) return state
  const isSoon = !isOutlived(state, last, noticedAt)
  const ends = [...state.ends, { bootId: last.bootId, noticedAt, isSoon, hasReport }].slice(-endsKept)
  return heldWhereDue({ ...state, ends }, noticedAt)
}

/**
 * Only a start of the boot in which the machine outlived another can be an earlier one: what the clock says of other boots may be wrong,
 * and so is a time that has not come yet.
 */
function isOutlived({ outlivedUpTo, outlivedIn }: FuseState, { bootId, intendedAt }: NotedStart, now: string): boolean {
  if (outlivedUpTo === null || (outlivedIn !== null && outlivedIn !== bootId)) return false
  return Date.parse(intendedAt) <= Date.parse(outlivedUpTo) && Date.parse(outlivedUpTo) <= Date.parse(now)
}

/** The report of a panic is written after the boot that follows it, so it may be found later than the end. */
export function withReport(state: FuseState, now: string): FuseState {
  const last = state.ends.at(-1)
  if (!last || last.hasReport) return state
  return heldWhereDue({ ...state, ends: [...state.ends.slice(0, -1), { ...last, hasReport: true }] }, now)
}

/** An agent begins, or is asked to end, in the boot `bootId`. */
export const withAgent = (state: FuseState, leftIn: string | null): FuseState =>
  state.leftIn === leftIn ? state : { ...state, leftIn }

/**
 * The machine outlived every start of the boot `bootId` up to `upTo`: the ends before that boot say nothing of the next. What is held
 * stays so. By the clock, which may have been wrong, only where the system does not say which boot this is.
 */
export const outlived = (state: FuseState, upTo: string, bootId: string): FuseState => ({
  ...state,
  ends: state.ends.filter(({ noticedAt }) => bootId === '' && Date.parse(noticedAt) > Date.parse(upTo)),
  outlivedUpTo: upTo,
  outlivedIn: bootId === '' ? null : bootId,
})

/** A person wants all models served again. */
export const servedAgain = (state: FuseState): FuseState => ({ ...state, ends: [], held: null, told: [] })

/** The cluster was told that this service is held. */
export const withTold = (state: FuseState, key: string): FuseState =>
  state.held === null || state.told.includes(key) ? state : { ...state, told: [...state.told, key].slice(-toldKept) }

export const isInTurn = ({ ends }: FuseState): boolean => ends.length > 0

const heldWhereDue = (state: FuseState, now: string): FuseState => {
  const { ends, held } = state
  const since = held?.since ?? now
  if (ends.some(({ hasReport }) => hasReport)) return { ...state, held: { since, because: 'panic' } }
  const isDue = held === null && ends.filter(({ isSoon }) => isSoon).length >= soonEndsForHold
  return isDue ? { ...state, held: { since, because: 'soonEnds' } } : state
}
