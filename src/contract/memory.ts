import { z } from 'zod'

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
  /** Of that, what starting models will still take. */
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
  availableBytes: bytes.optional(),
  wiredBytes: bytes.optional(),
  /** Other applications, the biggest first; only while memory is short. */
  applications: z.array(z.object({ name: z.string(), bytes })).optional(),
})
export type MemoryFiguresView = z.infer<typeof memoryFigures>
