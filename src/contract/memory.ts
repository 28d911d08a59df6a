import { z } from 'zod'
import { priorities } from './service.ts'

const bytes = z.number().nonnegative()

export const pressureLevels = ['normal', 'warning', 'critical', 'unknown'] as const

/** The memory of this machine, but for what changes all the time. */
export const memoryView = z.object({
  /** Absent while the system does not tell. */
  totalBytes: bytes.optional(),
  /** What models may hold together; absent where it is not known, and `problem` says why. */
  budgetBytes: bytes.optional(),
  /** One sentence: where the budget comes from. */
  budgetHow: z.string().optional(),
  /** What the GPU may hold at most, where that is known. */
  gpuLimitBytes: bytes.optional(),
  /** What a person runs to raise that limit. */
  raiseCommand: z.string().optional(),
  problem: z.string().optional(),
  /** What running and starting models count: for each the larger of estimate and measured footprint. */
  modelsBytes: bytes,
  /** The part of it that starting models have not taken yet. */
  reservedBytes: bytes,
  pressure: z.enum(pressureLevels),
  pressureSince: z.iso.datetime(),
  evictionEnabled: z.boolean(),
  /** Which services would be evicted if memory became critically short, or why none: one sentence. */
  eviction: z.string(),
  /** As namespace/name. */
  nextEviction: z.string().optional(),
  /** Services that wait for memory, as namespace/name, in the order in which they are served. */
  waiting: z.array(z.string()),
})
export type MemoryStateView = z.infer<typeof memoryView>

/** What changes with every look. */
export const memoryFigures = z.object({
  /** What the system could give now. */
  availableBytes: bytes.optional(),
  /** What a model could have now: the smaller of that and of what is left of the budget, less what starting models will still take. */
  freeBytes: bytes.optional(),
  wiredBytes: bytes.optional(),
  /** Other applications, the biggest first; only while memory is short. */
  applications: z.array(z.object({ name: z.string(), bytes })).optional(),
})
export type MemoryFiguresView = z.infer<typeof memoryFigures>

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
  /** Memory of which the figures tell, where others may hold it too: it counts once, and comes back with the last of them. */
  shared: z.object({ name: z.string(), keys: z.array(z.string()) }).optional(),
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
})
export type SizingView = z.infer<typeof sizingView>
