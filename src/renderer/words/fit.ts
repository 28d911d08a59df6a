import { formatBytes, formatTokens as tokens } from '../../contract/format.ts'
import type { MemoryStateView } from '../../contract/memory.ts'

/** Of what would make a model fit. */
export const fitWords = {
  title: 'Does not fit',
  ways: 'What would make it fit',
  tokens,
  context: (count: number) => `Use ${tokens(count)}`,
  contextEffect:
    'It is written to the InferenceService, so it counts wherever it is served; longer conversations are cut off.',
  evict: (name: string) => `Evict ${name}`,
  evictEffect: (name: string) => `${name} answers no more and leaves memory here, until it is brought back.`,
  raise: (bytes: number) => `Raise the budget to ${formatBytes(bytes)}`,
  raiseEffect: (memory: MemoryStateView | undefined) =>
    `Models may then hold that much together${memory?.budgetBytes === undefined ? '' : ` instead of ${formatBytes(memory.budgetBytes)}`}, at once and until it is changed.`,
  raiseFirst: 'The GPU may not hold so much yet. First, in a terminal on this Mac:',
  byFlag: 'The budget was given on the command line of the agent, which wins: start the agent with another one.',
  place: (place: number) => (place === 1 ? 'It is the next to start.' : `It is number ${place} of those that wait.`),
} as const
