import { z } from 'zod'
import { pressureLevels } from './memory.ts'
import { priorities } from './service.ts'

const bytes = z.number().nonnegative()

/** What running and starting servers of one service hold. */
export const holderView = z.object({
  namespace: z.string(),
  name: z.string(),
  priority: z.enum(priorities),
  /** What the budget gets back when it is stopped: the larger of estimate and measured footprint. */
  committedBytes: bytes,
  /** What the system gets back: what counts as its share of the memory; 0 where that is not known. */
  residentBytes: bytes,
  /** What it will still take of what is available; 0 once it serves. */
  promisedBytes: bytes,
})
export type HolderView = z.infer<typeof holderView>

/**
 * The figures that decide whether one more model fits, to the byte: sizing a model with them gives the agent's own answer. The snapshot's
 * figures are rounded, so that it stays the same while nothing happens.
 */
export const sizingView = z.object({
  platform: z.enum(['darwin', 'linux']),
  totalBytes: bytes,
  /** What the system could give now. */
  availableBytes: bytes,
  budgetBytes: bytes,
  /** One sentence: where the budget comes from. */
  budgetHow: z.string(),
  /** What the GPU may hold at most, where that is known. */
  gpuLimitBytes: bytes.optional(),
  pressure: z.enum(pressureLevels),
  /** Services whose servers hold memory, the largest first. */
  holders: z.array(holderView),
  /** Services that wait for memory, as namespace/name, in the order in which they are served. */
  waiting: z.array(z.string()),
  /** Other applications, the biggest first. */
  applications: z.array(z.object({ name: z.string(), bytes })),
  metal: z.boolean(),
  /** Path of the llama-server that a start would use now; absent where there is none. */
  llamaServer: z.string().optional(),
  modelStore: z.string(),
})
export type SizingView = z.infer<typeof sizingView>
