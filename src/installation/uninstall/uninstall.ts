import { formatBytes } from '../../contract/format.ts'
import { traceKinds, type Removal, type Trace, type TraceKind } from '../../contract/uninstall.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { removeByHand } from './own-files.ts'
import { traceTable } from './trace-table.ts'
import type { Found, TracePart } from './trace-part.ts'

/** Everything that is there, in the order in which it is removed. Nothing is changed. */
export async function listTraces(parts: readonly TracePart[]): Promise<Trace[]> {
  const traces = inOrder(parts).map(async (part) => {
    const { found, problem } = await lookOf(part)
    if (found === undefined && problem === undefined) return []
    const { places = [], stays = [] } = found ?? {}
    return [{ kind: part.kind, ...traceTable[part.kind], places, stays, ...(problem !== undefined && { problem }) }]
  })
  return (await Promise.all(traces)).flat()
}

const inOrder = (parts: readonly TracePart[]): TracePart[] =>
  parts.toSorted((a, b) => traceKinds.indexOf(a.kind) - traceKinds.indexOf(b.kind))

async function lookOf(part: TracePart): Promise<{ readonly found?: Found; readonly problem?: string }> {
  try {
    const found = await part.look()
    return found ? { found } : {}
  } catch (error) {
    return { problem: messageOf(error) }
  }
}

export const bytesOfTrace = ({ places }: Pick<Trace, 'places'>): number =>
  places.reduce((sum, { bytes = 0 }) => sum + bytes, 0)

export interface RemoveOptions {
  readonly chosen: ReadonlySet<TraceKind>
  /** Before each; what follows may take a while. */
  readonly onStep: (what: string) => void
}

/** Removes what is chosen, one kind after the other, and looks at each again: only what a look does not find any more is called gone. */
export async function removeTraces(parts: readonly TracePart[], { chosen, onStep }: RemoveOptions): Promise<Removal[]> {
  const removals: Removal[] = []
  for (const part of inOrder(parts).filter(({ kind }) => chosen.has(kind))) {
    const { what } = traceTable[part.kind]
    const before = await lookOf(part)
    const isNothing = before.problem === undefined && (before.found?.places.length ?? 0) === 0
    if (isNothing && (before.found?.stays?.length ?? 0) === 0) continue
    onStep(what)
    removals.push(isNothing ? nothingOf(part.kind, before.found) : await removal(part, before))
  }
  return removals
}

const nothingOf = (kind: TraceKind, found: Found | undefined): Removal => ({
  kind,
  what: traceTable[kind].what,
  isGone: true,
  message: (found?.stays ?? []).join(' '),
  byHand: [],
})

async function removal(part: TracePart, before: { found?: Found; problem?: string }): Promise<Removal> {
  const { kind } = part
  const { what } = traceTable[kind]
  const why = before.problem ?? (await part.remove().then(() => undefined, messageOf))
  const after = await lookOf(part)
  const left = after.found?.places ?? []
  const stays = after.found?.stays ?? []
  if (after.problem === undefined && why === undefined && left.length === 0) {
    const bytes = bytesOfTrace({ places: before.found?.places ?? [] })
    const size = bytes === 0 ? '' : `, ${formatBytes(bytes)}`
    return { kind, what, isGone: true, message: [`Removed${size}.`, ...stays].join(' '), byHand: [] }
  }
  const problem = asSentence(why ?? after.problem ?? 'It was there again after it was removed')
  const byHand = after.found?.byHand ?? removeByHand(left.map((place) => place.path))
  return { kind, what, isGone: false, message: [problem, ...stays].join(' '), byHand }
}

const asSentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`)
