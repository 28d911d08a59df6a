import { expect, test } from 'vitest'
import { type AgentSnapshot, mirrored } from '../../../src/contract/snapshot.ts'
import { sampleService, sampleSnapshot } from '../../support/sample-snapshot.ts'

const services = [sampleService({ uid: 'a' }), sampleService({ uid: 'b' })]
const figures = { a: { footprintBytes: 1 }, b: { footprintBytes: 2 } }
const before = sampleSnapshot({ services, figures, power: { state: 'measuring', message: 'Measured.' } })
const arrived = (changes: Partial<AgentSnapshot> = {}) => structuredClone({ ...before, revision: 2, ...changes })

test('what did not change keeps its identity', () => {
  const { now, revision, ...parts } = mirrored(before, arrived({ now: '2026-01-02T03:04:06.000Z' }))
  const changed = Object.entries(parts).filter(([name, part]) => part !== Reflect.get(before, name))
  expect({ now, revision, changed }).toEqual({ now: '2026-01-02T03:04:06.000Z', revision: 2, changed: [] })
})

test('only the service and the figure that changed are new', () => {
  const [a, b] = services
  const next = mirrored(
    before,
    arrived({
      services: [sampleService({ uid: 'a' }), sampleService({ uid: 'b', revision: 2, restarts: 1 })],
      figures: { a: { footprintBytes: 9 }, b: { footprintBytes: 2 } },
    }),
  )
  expect([next.services[0] === a, next.services[1] === b, next.services[1]?.restarts]).toEqual([true, false, 1])
  expect([next.figures['a'], next.figures['b'] === figures.b]).toEqual([{ footprintBytes: 9 }, true])
})

test('services in another order, or fewer, are other services', () => {
  const [a, b] = services
  expect(mirrored(before, arrived({ services: services.toReversed() })).services).toEqual([b, a])
  expect(mirrored(before, arrived({ services: services.slice(0, 1) })).services).toEqual([a])
})

test('of another agent nothing is kept, and what is no longer said is gone', () => {
  expect(mirrored(before, arrived({ bootId: 'boot-2' })).services[0]).not.toBe(services[0])
  const { power: _power, ...rest } = arrived()
  expect(mirrored(before, rest).power).toBeUndefined()
})
