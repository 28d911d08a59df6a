import { z } from 'zod'
import { formatBytes } from '../../contract/format.ts'

const bootId = z.string().max(200)
const time = z.iso.datetime()

/** The machine ended while models ran, and the agent had not been asked to end before. */
const disorderlyEnd = z.object({
  /** The boot that ended. */
  bootId,
  noticedAt: time,
  /** Within half an hour after a model was started. */
  isSoon: z.boolean(),
  /** The system wrote a panic report. */
  hasReport: z.boolean(),
})

/** Large models wait for a person. The cause is kept here because it outlives the ends that led to it. */
const hold = z.object({ since: time, because: z.enum(['panic', 'soonEnds']) })

/** What the fuse keeps on disk. */
export const fuseFile = z.object({
  schema: z.literal(1),
  /** The boot in which the agent was asked to end while models ran, as an orderly shutdown does. */
  leftIn: bootId.nullable(),
  /** The machine survived half an hour after every model start up to this time; null = none yet. */
  outlivedUpTo: time.nullable(),
  /** The boot of `outlivedUpTo`; null = not known. */
  outlivedIn: bootId.nullable().default(null),
  /** The disorderly ends since then, the oldest first. */
  ends: z.array(disorderlyEnd).max(100),
  held: hold.nullable(),
  /** Services (namespace/name) whose hold has been reported in the cluster. */
  told: z.array(z.string().max(600)).max(1_000).default([]),
})
export type FuseState = z.infer<typeof fuseFile>

export const nothingEnded: FuseState = {
  ...{ schema: 1, leftIn: null, outlivedUpTo: null, outlivedIn: null },
  ...{ ends: [], held: null, told: [] },
}

/** A model start as the ledger of servers has it. */
export interface NotedStart {
  /** Empty where the system did not say. */
  readonly bootId: string
  readonly intendedAt: string
}

/** More ends than this say nothing new. */
const endsKept = 10
/** As many as the file's schema allows. */
const reportedKept = 1_000
const soonEndsForHold = 2

/** The model starts that an end of the machine cut short, as seen from the boot `bootId`; none after an orderly shutdown. */
export function cutShort(state: FuseState, bootId: string, starts: readonly NotedStart[]): readonly NotedStart[] {
  const counted = new Set(['', bootId, state.leftIn, ...state.ends.map((end) => end.bootId)])
  return bootId === '' ? [] : starts.filter((start) => !counted.has(start.bootId))
}

/** `starts` are those that the end cut short; without one nothing changes. */
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

/** Times of different boots are not compared, nor is a time that has not come yet believed: the clock may have been wrong. */
function isOutlived({ outlivedUpTo, outlivedIn }: FuseState, { bootId, intendedAt }: NotedStart, now: string): boolean {
  if (outlivedUpTo === null || (outlivedIn !== null && outlivedIn !== bootId)) return false
  return Date.parse(intendedAt) <= Date.parse(outlivedUpTo) && Date.parse(outlivedUpTo) <= Date.parse(now)
}

/** macOS writes a panic report after the next boot, so it may be found later than the end is noticed. */
export function withReport(state: FuseState, now: string): FuseState {
  const last = state.ends.at(-1)
  if (!last || last.hasReport) return state
  return heldWhereDue({ ...state, ends: [...state.ends.slice(0, -1), { ...last, hasReport: true }] }, now)
}

/** An agent starts (null), or is asked to end in the boot `leftIn`. */
export const withAgent = (state: FuseState, leftIn: string | null): FuseState =>
  state.leftIn === leftIn ? state : { ...state, leftIn }

/**
 * The machine survived half an hour after every start of the boot `bootId` up to `upTo`: earlier ends predict nothing, but a hold stays.
 * Ends are compared by the clock only where the system does not identify boots.
 */
export const outlived = (state: FuseState, upTo: string, bootId: string): FuseState => ({
  ...state,
  ends: state.ends.filter(({ noticedAt }) => bootId === '' && Date.parse(noticedAt) > Date.parse(upTo)),
  outlivedUpTo: upTo,
  outlivedIn: bootId === '' ? null : bootId,
})

/** A person wants every model served again. */
export const servedAgain = (state: FuseState): FuseState => ({ ...state, ends: [], held: null, told: [] })

/** The hold of this service has been reported in the cluster. */
export const withReported = (state: FuseState, key: string): FuseState =>
  state.held === null || state.told.includes(key)
    ? state
    : { ...state, told: [...state.told, key].slice(-reportedKept) }

const heldWhereDue = (state: FuseState, now: string): FuseState => {
  const { ends, held } = state
  const since = held?.since ?? now
  if (ends.some(({ hasReport }) => hasReport)) return { ...state, held: { since, because: 'panic' } }
  const isDue = held === null && ends.filter(({ isSoon }) => isSoon).length >= soonEndsForHold
  return isDue ? { ...state, held: { since, because: 'soonEnds' } } : state
}

/** A model that is to start. */
export interface AskedStart {
  readonly key: string
  /** Undefined where it is not known. */
  readonly needBytes: number | undefined
}

export interface StartSituation {
  readonly state: Pick<FuseState, 'ends' | 'held'>
  /** Undefined where the machine's memory is not known: then no need counts as small. */
  readonly budgetBytes: number | undefined
  /** All that wait, this one among them. */
  readonly waiting: readonly AskedStart[]
  /** The model that loads now. */
  readonly loading: string | undefined
  /** Smaller models may still ask. */
  readonly isGathering: boolean
}

export type StartVerdict =
  | { readonly kind: 'go' }
  | { readonly kind: 'held' }
  /** `behind`: the key of the model that goes first; undefined where that is not known yet. */
  | { readonly kind: 'inTurn'; readonly behind: string | undefined }

/** Whether a model may start: one after the other, the smallest first, since the largest is the likeliest to end the machine again. */
export function verdictOn(start: AskedStart, situation: StartSituation): StartVerdict {
  const { state, waiting, loading, isGathering } = situation
  if (isKept(start, situation)) return { kind: 'held' }
  if (state.ends.length === 0) return { kind: 'go' }
  if (loading !== undefined && loading !== start.key) return { kind: 'inTurn', behind: loading }
  if (isGathering) return { kind: 'inTurn', behind: undefined }
  const [first] = waiting.filter((other) => !isKept(other, situation)).toSorted(bySize)
  return first === undefined || first.key === start.key ? { kind: 'go' } : { kind: 'inTurn', behind: first.key }
}

/** A model above half of the budget is held; an unknown need counts as too large. */
const isKept = ({ needBytes = Infinity }: AskedStart, { state: { held }, budgetBytes }: StartSituation): boolean =>
  held !== null && (budgetBytes === undefined || needBytes > budgetBytes / 2)

const bySize = (a: AskedStart, b: AskedStart): number => {
  const [first, second] = [a.needBytes ?? Infinity, b.needBytes ?? Infinity]
  if (first !== second) return first < second ? -1 : 1
  return a.key < b.key ? -1 : 1
}

const ended = {
  panic: 'This machine went down with a kernel panic while models were running',
  soonEnds: 'This machine went down more than once without a clean shutdown soon after models were started',
  once: 'This machine went down without a clean shutdown while models were running',
}
const howItEnded = ({ held }: FuseState): string => ended[held?.because ?? 'once']

const oneByOne = 'models start one at a time, the smallest first.'

/** Why a model is held. */
export function heldSentence(state: FuseState, { needBytes }: AskedStart, budgetBytes: number | undefined): string {
  const need = needBytes === undefined ? 'whose need is not known' : `that needs ${formatBytes(needBytes)}`
  const budget = budgetBytes === undefined ? 'that is not known' : `of ${formatBytes(budgetBytes)}`
  return (
    `${howItEnded(state)}, so a model ${need}, of a memory budget ${budget}, ` +
    'does not start automatically: start it with metal-agent serve-again, or with Serve again in the window.'
  )
}

/** Why a model waits for its turn. `behind`: the service that goes first. */
export function turnSentence(state: FuseState, behind: string | undefined): string {
  const next = behind === undefined ? 'The agent is finding out which is the smallest.' : `${behind} goes first.`
  return `${howItEnded(state)}, so ${oneByOne} ${next}`
}

/** About the machine as a whole. `held` are the services that wait for a person. */
export function fuseSentence(state: FuseState, held: readonly string[]): string {
  if (state.held === null) return `${howItEnded(state)}: ${oneByOne}`
  const waiting = held.length === 0 ? '' : ` Waiting: ${held.join(', ')}.`
  return `${howItEnded(state)}: models that need more than half of the memory budget do not start until you run metal-agent serve-again or choose Serve again.${waiting}`
}

/** For the history, once, when the end is noticed. */
export const noticedSentence = (state: FuseState): string =>
  state.held === null
    ? fuseSentence(state, [])
    : `${howItEnded(state)}: models that need more than half of the memory budget wait for a person.`
