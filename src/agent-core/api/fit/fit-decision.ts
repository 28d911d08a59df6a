import type { HolderView, SizingView } from '../../../contract/memory.ts'
import { fewestEvictions, fits, type Room, roomWithout, type Shortage, shortageOf } from '../../memory/room.ts'
import { refKey } from '../../util/object-key.ts'

/** What decides, of what a model is sized with. */
export type FitFigures = Pick<SizingView, 'budgetBytes' | 'availableBytes' | 'holders'>

/** Whether a model fits, by the arithmetic of admission. */
export type FitDecision =
  | { readonly kind: 'fits' }
  /** Not beside what runs, but when these services are stopped: the fewest, those of the lowest priority first. */
  | { readonly kind: 'whenStopped'; readonly stop: readonly HolderView[]; readonly shortage: Shortage }
  /** Not even with everything stopped, of which `shortage` tells. */
  | { readonly kind: 'not'; readonly shortage: Shortage }

export function decideFit(needBytes: number, figures: FitFigures): FitDecision {
  const room = roomOf(figures)
  if (fits(needBytes, room)) return { kind: 'fits' }
  // A person may also stop what no agent would evict.
  const holders = figures.holders.map((holder) => ({ ...holder, key: refKey(holder), isProtected: false }))
  const stop = fewestEvictions(needBytes, room, holders)
  if (stop === undefined) return { kind: 'not', shortage: shortageOf(needBytes, roomWithout(room, holders)) }
  return { kind: 'whenStopped', stop, shortage: shortageOf(needBytes, room) }
}

/** What the model meets beside what runs. */
export function roomOf({ budgetBytes, availableBytes, holders }: FitFigures): Room {
  const sum = (of: (holder: HolderView) => number) => holders.reduce((total, holder) => total + of(holder), 0)
  return {
    budgetBytes,
    availableBytes,
    committedBytes: sum(({ committedBytes }) => committedBytes),
    promisedBytes: sum(({ promisedBytes }) => promisedBytes),
  }
}
