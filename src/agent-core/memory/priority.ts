export type Priority = 'critical' | 'high' | 'normal' | 'low' | 'batch'

/** The Go agent's: the higher, the sooner it is started and the later it is evicted. */
export const priorityWeights: Readonly<Record<Priority, number>> = {
  critical: 1_000_000,
  high: 100_000,
  normal: 10_000,
  low: 1_000,
  batch: 100,
}
