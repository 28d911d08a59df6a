import type { SizingView } from '../../../contract/memory.ts'
import type { Estimate } from '../../memory/estimate/items.ts'
import { type ServerChange, waysToFit, type WayToFit } from '../../memory/ways-to-fit.ts'
import type { Room } from '../../memory/room.ts'
import { decideFit, type FitDecision, roomOf } from './fit-decision.ts'
import type { ServingWish } from './sized-model.ts'

/** Whether a model fits beside what runs, and what would make it fit. */
export interface Fit {
  readonly estimate: Estimate
  readonly room: Room
  readonly decision: FitDecision
  /** Without those that stop servers: the decision names them. */
  readonly ways: readonly WayToFit[]
}

/** Throws RangeError where the header of the model cannot be right. */
export function fitOf(
  estimateWith: (change: ServerChange) => Estimate,
  { contextTokens, slots }: ServingWish,
  machine: SizingView,
): Fit {
  const estimate = estimateWith({})
  const room = roomOf(machine)
  const ways = waysToFit({
    needBytes: estimate.total,
    room,
    priority: 'normal',
    ...(estimate.contextTokens !== undefined && { contextTokens: contextTokens ?? estimate.contextTokens }),
    ...(slots !== undefined && { slots }),
    estimateAt: (change) => estimateWith(change).total,
    // The person who asks decides which servers may be stopped, not their priority: see `decideFit`.
    servers: [],
    apps: machine.applications,
    totalBytes: machine.totalBytes,
    ...(machine.gpuLimitBytes !== undefined && { gpuLimitBytes: machine.gpuLimitBytes }),
    platform: machine.platform,
  })
  return { estimate, room, decision: decideFit(estimate.total, machine), ways }
}
