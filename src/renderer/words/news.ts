import type { EventView } from '../../contract/queries.ts'

/** What the cluster says of a service: its conditions, and its Events. */
export const newsWords = {
  conditions: 'Conditions in the cluster',
  events: 'Recent Events',
  noConditions: 'The cluster has no condition of it.',
  noEvents: 'The cluster keeps no Event of it.',
  more: (count: number) => `The ${count} newest; metal-agent events lists all.`,
  ago: 'ago',
  since: 'for',
  /** Such as "Crashed, 3 times". */
  event: ({ reason, count }: EventView) => (count === 1 ? reason : `${reason}, ${count} times`),
} as const
