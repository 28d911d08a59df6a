import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Doors } from '../../../src/agent-core/gateway/doors.ts'

let doors: Doors
let changes: number
beforeEach(() => {
  vi.useFakeTimers()
  changes = 0
  doors = new Doors(() => (changes += 1))
})
afterEach(() => {
  doors[Symbol.dispose]()
  vi.useRealTimers()
})
const kind = (): string => doors.at('10.0.0.1', 1).kind

test('an address is open once the gateway says so, and closed with a sentence where it cannot listen there', () => {
  doors.await()
  expect(kind()).toBe('unknown')
  doors.there()
  expect(kind()).toBe('unknown')
  doors.heard({ host: '10.0.0.1', port: 1 })
  doors.heard({ host: '10.0.0.1', port: 2, problem: 'EADDRINUSE' })
  expect([kind(), doors.at('10.0.0.1', 2)]).toEqual([
    'open',
    {
      kind: 'closed',
      message:
        'The gateway cannot listen at 10.0.0.1:2: another program listens there, so stop it or choose other ports with --port-range. The agent tries again every few seconds.',
    },
  ])
  doors.onlyAt([{ port: 1 }, { address: '10.0.0.2', port: 2 }])
  expect([kind(), doors.at('10.0.0.1', 2).kind]).toEqual(['open', 'unknown'])
  doors.onlyAt([{ address: '10.0.0.1', port: 2 }])
  expect([kind(), changes]).toEqual(['unknown', 3])
})

test('at the ingress it is another setting that chooses the port', () => {
  doors.there()
  doors.heard({ host: '0.0.0.0', port: 9_443, problem: 'EADDRINUSE' })
  expect(JSON.stringify(doors.at('0.0.0.0', 9_443))).toContain('or choose another port with --ingress-port')
})

test('a gateway that ends is given a moment to be back; then nobody listens', () => {
  doors.await()
  doors.there()
  doors.heard({ host: '10.0.0.1', port: 1 })
  doors.lost()
  vi.advanceTimersByTime(1_900)
  expect(kind()).toBe('unknown')
  doors.there()
  doors.heard({ host: '10.0.0.1', port: 1 })
  vi.advanceTimersByTime(60_000)
  expect(kind()).toBe('open')
  doors.lost()
  const before = changes
  vi.advanceTimersByTime(2_000)
  expect([kind(), changes]).toEqual(['closed', before + 1])
})

test('one that cannot be started listens nowhere, and says why', () => {
  doors.await()
  doors.failed('the gateway could not be started (ENOENT)')
  expect(doors.at('10.0.0.1', 1)).toEqual({
    kind: 'closed',
    message: 'Nothing is listening at 10.0.0.1:1: the gateway could not be started (ENOENT).',
  })
  doors.there()
  expect(kind()).toBe('unknown')
})

test('one that does not come is given up after a while', () => {
  doors.await()
  vi.advanceTimersByTime(15_000)
  expect(kind()).toBe('closed')
})
