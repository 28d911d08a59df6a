import { formatBytes } from '../../../contract/format.ts'
import type { FuseState } from './fuse-state.ts'
import type { AskedStart } from './start-order.ts'

/** How the machine ended, as the middle of a sentence. */
function howItEnded({ held }: FuseState): string {
  switch (held?.because) {
    case undefined:
      return 'ended without an orderly shutdown while models ran'
    case 'panic':
      return 'ended with a kernel panic while models ran'
    case 'soonEnds':
      return 'ended without an orderly shutdown soon after models were started, more than once'
  }
}

/** A model above half the budget is held; any, where the budget is not known. */
export function heldSentence(state: FuseState, { needBytes }: AskedStart, budgetBytes: number | undefined): string {
  const need = needBytes === undefined ? 'of which nobody knows what it needs' : `that needs ${formatBytes(needBytes)}`
  const budget = budgetBytes === undefined ? 'that is not known' : `of ${formatBytes(budgetBytes)}`
  return (
    `This machine ${howItEnded(state)}, so a model ${need}, of a memory budget ${budget}, ` +
    'is not started by itself: metal-agent serve-again, or Serve again in the window, starts it.'
  )
}

/** A model waits for its turn. `behind`: the service that goes first. */
export function turnSentence(state: FuseState, behind: string | undefined): string {
  const next = behind === undefined ? 'It is found out which is the smallest.' : `${behind} goes first.`
  return `This machine ${howItEnded(state)}, so models start one after the other, the smallest first. ${next}`
}

/** About the machine as a whole. `held` are the services that wait for a person. */
export function fuseSentence(state: FuseState, held: readonly string[]): string {
  if (state.held === null) {
    return `This machine ${howItEnded(state)}: models start one after the other, the smallest first.`
  }
  const waiting = held.length === 0 ? '' : ` Waiting: ${held.join(', ')}.`
  return `This machine ${howItEnded(state)}: models that need more than half of the memory budget are not started until you say so.${waiting}`
}

/** For the history, once when it is noticed. */
export const noticedSentence = (state: FuseState): string =>
  `This machine ${howItEnded(state)}: ${
    state.held === null
      ? 'models start one after the other, the smallest first.'
      : 'models that need more than half of the memory budget wait for a person.'
  }`
