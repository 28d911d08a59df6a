import { z } from 'zod'
import type { EditableRow } from '../setting-row.ts'
import { dayMs, negativeMeansZero, number } from '../setting-schemas.ts'

export const memoryRows = {
  memoryFraction: {
    kind: 'fraction',
    schema: number(0, 1, 'must be a fraction of all memory from 0 (automatic) to 1'),
    default: 0,
    defaultMeans: 'automatic: 0.67, above 36Gi 0.75, from 128Gi 0.9',
    group: 'Memory',
    flag: 'memory-fraction',
    flagTakes: negativeMeansZero,
    help: 'fraction of memory that models may hold together',
    counts: 'now',
    trust: 'page',
  },
  memoryBudgetBytes: {
    kind: 'bytes',
    schema: z
      .int({ error: 'must be from 1Mi to 100T' })
      .min(1_048_576, 'must be at least 1Mi')
      .max(100_000_000_000_000, 'must be at most 100T'),
    defaultMeans: 'the fraction counts',
    group: 'Memory',
    flag: 'memory-budget',
    help: 'bytes that models may hold together, such as 24Gi, instead of a fraction',
    counts: 'now',
    trust: 'page',
  },
  memoryCheckMode: {
    kind: 'choice',
    schema: z.enum(['enforce', 'warn'], { error: 'must be enforce or warn' }),
    default: 'enforce',
    group: 'Memory',
    flag: 'memory-check-mode',
    help: 'enforce refuses a start whose memory cannot be checked, warn lets it pass',
    counts: 'now',
    trust: 'page',
  },
  memoryMarginBytes: {
    kind: 'bytes',
    schema: z
      .int({ error: 'must be from 64Mi to 100T' })
      .min(67_108_864, 'must be at least 64Mi')
      .max(100_000_000_000_000, 'must be at most 100T'),
    defaultMeans: 'the larger of 1Gi and 15 % of what it was admitted with',
    group: 'Memory',
    flag: 'memory-margin',
    help: 'bytes that a model may take past what it was admitted with before people are told',
    counts: 'now',
    trust: 'page',
  },
  evictionEnabled: {
    kind: 'switch',
    schema: z.boolean({ error: 'must be true or false' }),
    default: false,
    group: 'Memory',
    flag: 'eviction-enabled',
    spelled: 'eviction',
    help: 'evict the least important model when memory is critically short',
    counts: 'now',
    trust: 'page',
  },
  evictionShare: {
    kind: 'fraction',
    schema: number(0, 1, 'must be a fraction of all memory from 0 to 1'),
    // The Go agent's friendly-fire guard: less than this in our models, and something else is the cause.
    default: 0.5,
    group: 'Memory',
    flag: 'eviction-share',
    help: 'fraction of memory that models must hold before one of them is evicted',
    counts: 'now',
    trust: 'page',
  },
  evictionAtAdmission: {
    kind: 'switch',
    schema: z.boolean({ error: 'must be true or false' }),
    default: false,
    group: 'Memory',
    flag: 'eviction-at-admission',
    help: 'let a start of higher priority evict models of lower priority',
    counts: 'now',
    trust: 'page',
  },
  comeBackMs: {
    kind: 'duration',
    schema: number(1_000, dayMs, 'must be from 1s to 24h'),
    default: 120_000,
    group: 'Memory',
    flag: 'come-back-after',
    help: 'how long memory pressure must have been normal before an evicted model comes back',
    counts: 'now',
    trust: 'page',
  },
} as const satisfies Readonly<Record<string, EditableRow>>
