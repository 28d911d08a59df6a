import fc from 'fast-check'
import { agents, answers, harmable, holds, refreshed, refusable, services, type Fault } from './faults.ts'

/** Between two faults: short, so that most of them meet others that are not over. */
const longestGapMs = 2_000

const forMs = (min: number, max: number) => fc.integer({ min, max })
const agent = fc.constantFrom(...agents)
const service = fc.constantFrom(...services)
/** Everything but the one that must go on undisturbed. */
const other = fc.constantFrom(...services.filter((name) => name !== 'steady'))
const contextSize = fc.integer({ min: 1, max: 6 }).map((thousands) => thousands * 1024)
const always = <K extends string>(kind: K) => fc.constant(kind)

/** How often each kind comes, in relation to the others. */
const kinds = [
  [8, fc.record({ kind: always('killServer'), service: fc.constantFrom(...harmable) })],
  [4, fc.record({ kind: always('stopServer'), service: fc.constantFrom(...harmable), forMs: forMs(200, 12_000) })],
  [4, fc.record({ kind: always('killDaemon'), awayMs: forMs(0, 6_000) })],
  [3, fc.record({ kind: always('hangDaemon'), forMs: forMs(500, 30_000) })],
  [4, fc.record({ kind: always('dropModels') })],
  [4, fc.record({ kind: always('killAgent'), agent, awayMs: forMs(0, 3_000) })],
  [2, fc.record({ kind: always('killAgentInStart'), afterMs: forMs(0, 1_500) })],
  [1, fc.record({ kind: always('terminateAgent'), awayMs: forMs(0, 2_000) })],
  [2, fc.record({ kind: always('stallApi'), forMs: forMs(300, 5_000) })],
  [1, fc.record({ kind: always('killApi'), awayMs: forMs(0, 3_000) })],
  [
    12,
    fc.record(
      {
        kind: always('refuse'),
        resource: fc.constantFrom(...refusable),
        answer: fc.constantFrom(...answers),
        name: service,
        forMs: forMs(300, 8_000),
      },
      { requiredKeys: ['kind', 'resource', 'answer', 'forMs'] },
    ),
  ],
  [3, fc.record({ kind: always('cutWatches') })],
  [4, fc.record({ kind: always('stepClock'), agent, byMs: fc.integer({ min: -7_200_000, max: 7_200_000 }) })],
  [2, fc.record({ kind: always('fillDisk'), forMs: forMs(500, 6_000) })],
  [2, fc.record({ kind: always('readOnlyDisk'), forMs: forMs(500, 6_000) })],
  [
    6,
    fc.record({
      kind: always('deletePublished'),
      object: fc.constantFrom('EndpointSlice', 'Service', 'Endpoints'),
      service,
    }),
  ],
  [
    6,
    fc.record({
      kind: always('editPublished'),
      what: fc.constantFrom('slice port', 'slice address', 'slice ready', 'Service port', 'Endpoints'),
      service,
    }),
  ],
  [2, fc.record({ kind: always('deleteModel'), service: other, awayMs: forMs(0, 4_000) })],
  [4, fc.record({ kind: always('recreate'), service: other, awayMs: forMs(0, 3_000) })],
  [5, fc.record({ kind: always('edit'), service: other, contextSize })],
  [4, fc.record({ kind: always('takeBackEdit'), service: other, contextSize, afterMs: forMs(0, 2_500) })],
  [3, fc.record({ kind: always('scaleToZero'), service: other, forMs: forMs(200, 5_000) })],
  [4, fc.record({ kind: always('secondAgent'), forMs: forMs(4_000, 20_000) })],
  [3, fc.record({ kind: always('pause'), agent, forMs: forMs(500, 6_000) })],
  [4, fc.record({ kind: always('evict'), agent, service: other, forMs: forMs(500, 6_000) })],
  [3, fc.record({ kind: always('restart'), service: other })],
  [3, fc.record({ kind: always('noAddress'), agent, forMs: forMs(500, 12_000) })],
  [3, fc.record({ kind: always('fdLimit'), agent, left: fc.integer({ min: 0, max: 6 }), forMs: forMs(500, 8_000) })],
  [
    3,
    fc.record({
      kind: always('newContent'),
      service: fc.constantFrom(...refreshed),
      aheadMs: fc.constantFrom(0, 86_400_000, 31_536_000_000),
      forMs: forMs(4_000, 14_000),
    }),
  ],
  [3, fc.record({ kind: always('twin'), forMs: forMs(500, 8_000) })],
  [1, fc.record({ kind: always('moveNamespace'), forMs: forMs(0, 6_000) })],
  [3, fc.record({ kind: always('prune'), agent })],
  [
    3,
    fc.record({
      kind: always('holdEvicted'),
      service: other,
      how: fc.constantFrom(...holds),
      forMs: forMs(3_500, 8_000),
    }),
  ],
  [2, fc.record({ kind: always('killGateway') })],
  [2, fc.record({ kind: always('stopGateway'), forMs: forMs(500, 15_000) })],
  [3, fc.record({ kind: always('updateAgent') })],
  [1, fc.record({ kind: always('takeClientPort'), forMs: forMs(500, 8_000) })],
  // Of 4 GiB: plenty, short, too little for one more, critically little.
  [
    4,
    fc.record({
      kind: always('memory'),
      availableMiB: fc.constantFrom(1_000, 700, 450, 300),
      forMs: forMs(500, 8_000),
    }),
  ],
] as const

const what: fc.Arbitrary<Fault['what']> = fc.oneof(...kinds.map(([weight, arbitrary]) => ({ weight, arbitrary })))
const planned: fc.Arbitrary<Fault> = fc.record({ afterMs: forMs(0, longestGapMs), what })

/** The same faults for the same seed. */
export const schedule = ({ seed, count }: { readonly seed: number; readonly count: number }): Fault[] =>
  fc.sample(planned, { seed, numRuns: count })

/** Several rounds: each begins and ends with everything as it should be. */
export function rounds<T>(faults: readonly T[], size: number): T[][] {
  const count = Math.ceil(faults.length / size)
  return Array.from({ length: count }, (_, round) => faults.slice(round * size, (round + 1) * size))
}
