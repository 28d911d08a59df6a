import { expect, test } from 'vitest'
import { serverFeed, snapshotFeed } from '../../../src/agent-core/history/history-feed.ts'
import type { ServerState } from '../../../src/agent-core/process/server-state.ts'
import type { ServiceState } from '../../../src/contract/service.ts'
import type { HistoryEntry } from '../../../src/contract/history.ts'
import { sampleService, sampleSnapshot } from '../../support/sample-snapshot.ts'

function recorder() {
  const told: string[] = []
  const add = ({ kind, message }: Omit<HistoryEntry, 'id' | 'at'>) => void told.push(`${kind}: ${message}`)
  return { told, history: { add } }
}

const run = { since: 0, pid: 7, port: 5001 }
const exit = { since: 0, code: 1, signal: null, tail: [], outOf: 'serving', failures: 1 } as const

test('what a server does is told once, however often its state is', () => {
  const { told, history } = recorder()
  const feed = serverFeed(history, () => 'Suspended by spec.suspend.')
  const states: readonly ServerState[] = [
    { kind: 'starting', since: 0 },
    { kind: 'starting', ...run },
    { kind: 'loading', ...run },
    { kind: 'ready', ...run, readySince: 0, healthy: true },
    { kind: 'ready', ...run, readySince: 0, healthy: false },
    { kind: 'ready', ...run, readySince: 0, healthy: true },
    { kind: 'exited', ...exit, cause: 'itself', message: 'It crashed.', settled: false },
    { kind: 'exited', ...exit, cause: 'itself', message: 'It crashed.', settled: true },
    { kind: 'starting', ...run, pid: 8 },
    { kind: 'stopping', ...run, pid: 8, cause: 'stopped' },
    { kind: 'exited', ...exit, cause: 'stopped', message: 'It was stopped.', settled: true },
    { kind: 'failedToSpawn', since: 0, message: 'No binary.', failures: 1 },
  ]
  for (const state of states) feed('ns/tiny', state)
  expect(told).toEqual([
    'started: The server was started as process 7.',
    'ready: The server answers on port 5001.',
    'crashed: It crashed.',
    'started: The server was started as process 8.',
    'stopped: Suspended by spec.suspend.',
    'crashed: No binary.',
  ])
})

test('a refusal is told when it begins or changes, and the address when it changes', () => {
  const { told, history } = recorder()
  const feed = snapshotFeed(history)
  const { address: _known, ...host } = sampleSnapshot().host
  const shown = (message: string, state: ServiceState, address: string | undefined) =>
    feed(
      sampleSnapshot({
        host: { ...host, message: `At ${address}.`, ...(address !== undefined && { address }) },
        services: [sampleService({ state, message })],
      }),
    )
  shown('', 'ready', undefined)
  shown('', 'ready', '192.0.2.1')
  shown('No.', 'refused', '192.0.2.1')
  shown('No.', 'refused', '192.0.2.2')
  shown('Never.', 'refused', undefined)
  shown('', 'ready', '192.0.2.2')
  shown('No.', 'refused', '192.0.2.2')
  expect(told).toEqual([
    'refused: No.',
    'addressChanged: At 192.0.2.2.',
    'refused: Never.',
    'addressChanged: At undefined.',
    'addressChanged: At 192.0.2.2.',
    'refused: No.',
  ])
})
