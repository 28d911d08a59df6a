import { messageOf } from '../../agent-core/util/message-of.ts'
import { formatBytes } from '../../contract/format.ts'
import { shellCommand } from '../../contract/shell.ts'
import { traceKinds, type Removal, type Trace, type TraceKind, type TracePlace } from '../../contract/uninstall.ts'
import { bytesOf } from '../files.ts'

/** The id of the app's bundle, by which macOS names what it keeps for the app. */
export const bundleId = 'dev.metalbar.app'
export const appName = 'Metalbar'
/** The name of the key of Electron's safeStorage. */
export const keychainService = `${appName} Safe Storage`

/** Matches the command inside of an app, whatever that is called and wherever it is. */
export const insideAnApp = /\.app\/Contents\/Resources\/bin\/metal-agent$/

const traceTable: Readonly<Record<TraceKind, Pick<Trace, 'what' | 'isChosen'>>> = {
  service: { what: 'The service that starts the agent', isChosen: true },
  servers: { what: 'Model servers that an agent left running', isChosen: true },
  cluster: { what: 'What this machine published in the cluster', isChosen: true },
  loginItem: { what: 'Opening at login', isChosen: true },
  sudoRule: { what: 'The sudo rule that allows measuring power', isChosen: true },
  commandLink: { what: 'The link to the command metal-agent', isChosen: true },
  models: { what: 'Downloaded models', isChosen: false },
  token: { what: 'The Hugging Face token, encrypted', isChosen: true },
  keychain: { what: 'The key of the token in the keychain', isChosen: true },
  macPreferences: { what: 'What macOS remembers for the app', isChosen: true },
  crashReports: { what: 'Crash reports', isChosen: true },
  appData: { what: 'Windows, caches and downloaded updates of the app', isChosen: true },
  logs: { what: 'Logs of the agent and of its servers', isChosen: true },
  settings: { what: 'Settings and preferences', isChosen: true },
  state: { what: 'State: identity, history, holds', isChosen: true },
}

/** One sentence: what was not removed, why, and what to do. */
export class UninstallError extends Error {
  override readonly name = 'UninstallError'
}

/** What there is of one kind. */
export interface Found {
  /** What {@link remove} removes. */
  readonly places: readonly TracePlace[]
  /** What is left alone, one sentence each. */
  readonly stays?: readonly string[]
  /** Lines for a shell that remove the places. Absent = `rm` of each. */
  readonly byHand?: readonly string[]
  /** Throws with a sentence where some of it is left. */
  remove(): Promise<void>
}

/** Looks for one kind of trace. Throws where it cannot be found out whether there is any. */
export interface TracePart {
  readonly kind: TraceKind
  look(): Promise<Found>
}

/** Places with the room that they take. */
export const sized = (files: readonly string[]): Promise<TracePlace[]> =>
  Promise.all(files.map(async (file) => ({ path: file, bytes: await bytesOf(file) })))

export const removeByHand = (files: readonly string[], sudo = false): string[] =>
  files.map((file) => shellCommand([...(sudo ? ['sudo'] : []), 'rm', '-r', file]))

/** Everything that is there, in the order in which it is removed. Nothing is changed. */
export async function listTraces(parts: readonly TracePart[]): Promise<Trace[]> {
  const traces = inOrder(parts).map(async (part): Promise<Trace> => {
    const { places, stays, problem } = await lookOf(part)
    return { kind: part.kind, ...traceTable[part.kind], places, stays, ...(problem !== undefined && { problem }) }
  })
  return (await Promise.all(traces)).filter((trace) => !isEmpty(trace))
}

export interface RemoveOptions {
  readonly chosen: ReadonlySet<TraceKind>
  /** Called before each step, which may take a while. */
  readonly onStep: (what: string) => void
}

/** Removes what is chosen, one kind after the other, and looks at each again: only what is no longer found is called gone. */
export async function removeTraces(parts: readonly TracePart[], { chosen, onStep }: RemoveOptions): Promise<Removal[]> {
  const removals: Removal[] = []
  for (const part of inOrder(parts).filter(({ kind }) => chosen.has(kind))) {
    const before = await lookOf(part)
    if (isEmpty(before)) continue
    const { what } = traceTable[part.kind]
    onStep(what)
    const failure = before.problem ?? (before.places.length > 0 ? await failureOf(before.remove()) : undefined)
    removals.push({ kind: part.kind, what, ...outcome(before, failure, await lookOf(part)) })
  }
  return removals
}

export const bytesOfTrace = ({ places }: Pick<Trace, 'places'>): number =>
  places.reduce((sum, { bytes = 0 }) => sum + bytes, 0)

const failureOf = (removal: Promise<void>): Promise<string | undefined> => removal.then(() => undefined, messageOf)

const inOrder = (parts: readonly TracePart[]): TracePart[] =>
  parts.toSorted((a, b) => traceKinds.indexOf(a.kind) - traceKinds.indexOf(b.kind))

/** A part's answer, or why there is none. */
interface Look extends Found {
  readonly stays: readonly string[]
  readonly problem?: string
}

async function lookOf(part: TracePart): Promise<Look> {
  try {
    return { stays: [], ...(await part.look()) }
  } catch (error) {
    return { places: [], stays: [], problem: messageOf(error), remove: () => Promise.resolve() }
  }
}

const isEmpty = ({ places, stays, problem }: Pick<Trace, 'places' | 'stays' | 'problem'>): boolean =>
  places.length === 0 && stays.length === 0 && problem === undefined

function outcome(before: Look, failure: string | undefined, after: Look): Omit<Removal, 'kind' | 'what'> {
  const isBack = after.places.length > 0 ? 'It was there again after it was removed' : undefined
  const problem = failure ?? after.problem ?? isBack
  if (problem !== undefined) {
    const message = [asSentence(problem), ...after.stays].join(' ')
    return { isGone: false, message, byHand: after.byHand ?? removeByHand(after.places.map(({ path }) => path)) }
  }
  const bytes = bytesOfTrace(before)
  const size = bytes === 0 ? '' : `, ${formatBytes(bytes)}`
  const done = before.places.length === 0 ? [] : [`Removed${size}.`]
  return { isGone: true, message: [...done, ...after.stays].join(' '), byHand: [] }
}

const asSentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`)
