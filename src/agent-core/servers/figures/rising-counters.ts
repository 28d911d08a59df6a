import type { RuntimeCounters } from '../activity.ts'

/** Those that only rise while a server runs. */
export const risingCounters = [
  'promptTokens',
  'promptSeconds',
  'cachedTokens',
  'generatedTokens',
  'generationSeconds',
  'decodes',
] as const

/** What is not counted is absent. */
export type RisingCounts = Pick<RuntimeCounters, (typeof risingCounters)[number]>
