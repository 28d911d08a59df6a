import { formatBytes } from '../../contract/format.ts'
import type { HeldMemory } from './holds.ts'
import type { PressureLevel } from './pressure.ts'

/** A server with memory. */
export interface GrownServer extends Pick<
  HeldMemory,
  'key' | 'role' | 'committedBytes' | 'excessBytes' | 'possibleExcessBytes'
> {
  readonly needBytes?: number | undefined
  /** It was ended for what it takes, and is not gone yet. */
  readonly isEnding: boolean
}

export interface ExcessQuestion {
  readonly servers: readonly GrownServer[]
  readonly budgetBytes: number
  /** As it is at this moment, without the patience of the level that is shown. */
  readonly level: PressureLevel
  /** Undefined where it cannot be read: then memory is not short as far as is known. */
  readonly available: { readonly bytes: number; readonly criticalBelowBytes: number } | undefined
  /** Undefined: see {@link marginOf}. */
  readonly marginBytes: number | undefined
}

export type ExcessCause = 'budget' | 'available'

export interface ExcessVerdict {
  readonly end: GrownServer
  readonly cause: ExcessCause
  /** What it did and why that ends it. */
  readonly sentence: string
}

const mebibyte = 1024 ** 2
const gibibyte = 1024 * mebibyte

/** How far an estimate may be wrong before it counts as growth. */
const toleranceOf = (needBytes: number): number => Math.max(64 * mebibyte, needBytes * 0.05)

/** How far past its need a server may go before people are told: as set, or the larger of 1 GiB and 15 %. */
export const marginOf = (needBytes: number, setBytes?: number): number =>
  setBytes ?? Math.max(gibibyte, needBytes * 0.15)

/**
 * The server to end because it takes more than it was admitted with; undefined where none has to be. Within the budget and while memory is
 * not critically short a wrong estimate ends nothing. Of several the one furthest past its need.
 */
export function chooseExcess(question: ExcessQuestion): ExcessVerdict | undefined {
  const { servers, budgetBytes, level, available, marginBytes } = question
  const isPast = (bytes: number, { needBytes = 0 }: GrownServer) => bytes > toleranceOf(needBytes)
  const isFarPast = (bytes: number, { needBytes = 0 }: GrownServer) => bytes > marginOf(needBytes, marginBytes)

  const alive = servers.filter(({ isEnding }) => !isEnding)

  if (level === 'critical' && available !== undefined) {
    const { bytes, criticalBelowBytes } = available
    const guilty = alive.filter(
      (server) =>
        isPast(server.possibleExcessBytes, server) &&
        (isFarPast(server.possibleExcessBytes, server) || bytes + server.possibleExcessBytes >= criticalBelowBytes),
    )
    const end = furthest(guilty, ({ possibleExcessBytes }) => possibleExcessBytes)
    if (end) {
      const why = `and memory is critically short (${formatBytes(bytes)} really available)`
      return { end, cause: 'available', sentence: sentence(end, end.possibleExcessBytes, why) }
    }
  }

  const sum = (bytes: (server: GrownServer) => number) => servers.reduce((total, server) => total + bytes(server), 0)
  // What was taken past the need by one that was ended comes back: that may be enough.
  const excessOf = ({ isEnding, excessBytes }: GrownServer) => (isEnding ? 0 : excessBytes)
  const needs = sum(({ committedBytes, excessBytes }) => committedBytes - excessBytes)
  const committed = needs + sum(excessOf)
  if (committed <= budgetBytes) return undefined
  // Where the needs alone are more than the budget, as after it was lowered, growth is only what is past the margin too.
  const needsFit = needs <= budgetBytes
  const grown = alive.filter((server) => (needsFit ? isPast : isFarPast)(server.excessBytes, server))
  const end = furthest(grown, ({ excessBytes }) => excessBytes)
  const why = `and with that the models take ${formatBytes(committed)}, more than the budget of ${formatBytes(budgetBytes)}`
  return end && { end, cause: 'budget', sentence: sentence(end, end.excessBytes, why) }
}

function furthest(servers: readonly GrownServer[], bytes: (server: GrownServer) => number): GrownServer | undefined {
  return servers.toSorted((a, b) => bytes(b) - bytes(a))[0]
}

const sentence = ({ needBytes = 0 }: GrownServer, excessBytes: number, why: string): string =>
  `It took ${formatBytes(excessBytes)} more than the ${formatBytes(needBytes)} that it was admitted with, ${why}, so it was ended.`

export const excessAdvice =
  'A chat template or a grammar that makes long texts, or large pictures, may be the cause; fewer slots and a shorter context take less.'

/** Steps of the figure that is told, so that a server that grows slowly is told of a few times and not all the time. */
const step = 1.5
/** What was told is taken back below this share of it. */
const takenBackBelow = 0.8

/**
 * The excess to tell people of: that of the last telling while it is about as large, undefined where it is none to speak of. Within the
 * budget nothing more follows from it.
 */
export function toldExcess(
  { needBytes, excessBytes }: Pick<GrownServer, 'needBytes' | 'excessBytes'>,
  before: number | undefined,
  marginBytes: number | undefined,
): number | undefined {
  if (needBytes === undefined) return undefined
  const margin = marginOf(needBytes, marginBytes)
  if (before !== undefined && excessBytes >= before * takenBackBelow && excessBytes < before * step) return before
  return excessBytes > margin ? excessBytes : undefined
}

export const excessNotice = (excessBytes: number, needBytes: number): string =>
  `It takes ${formatBytes(excessBytes)} more than the ${formatBytes(needBytes)} that it was admitted with: that counts, so that nothing is started on it, and it is the first to be ended where the budget or the memory of this machine does not do. ${excessAdvice} A restart gives it back.`
