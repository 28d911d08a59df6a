import { expect, test } from 'vitest'
import type { ServerState } from '../../../src/agent-core/servers/server-state.ts'
import { drainFigures, serverView } from '../../../src/agent-core/reconcile/server-view.ts'

const ready = { kind: 'ready', since: 0, readySince: 0, pid: 7, port: 8080, healthy: false } as const
const exited = {
  kind: 'exited',
  since: 0,
  code: 0,
  signal: null,
  cause: 'stopped',
  outOf: 'serving',
  message: 'Stopped.',
  tail: [],
  settled: false,
  failures: 0,
} as const
const stopping = { kind: 'stopping', since: 5_000, cause: 'stopped' } as const

test.each<[ServerState, string]>([
  [
    { ...ready, trouble: 'silent' },
    'The server does not answer its health check; if this continues, the agent restarts it.',
  ],
  [
    { ...ready, trouble: 'suspended' },
    'The server does not answer: its process is suspended (by SIGSTOP, a terminal or a debugger). If this continues, the agent restarts it.',
  ],
  [
    { ...ready, trouble: 'failing' },
    'The server answers its health check with an error; if this continues, the agent restarts it.',
  ],
  [stopping, 'The server is finishing.'],
  [
    { ...stopping, drain: { requestsInFlight: 2, endsAt: 29_500 } },
    '2 requests finishing; the server stops in at most 25 s.',
  ],
  [
    { ...stopping, drain: { requestsInFlight: 1, endsAt: 6_000 } },
    '1 request finishing; the server stops in at most 1 s.',
  ],
  [
    { ...stopping, drain: { requestsInFlight: 0, endsAt: 6_000 } },
    'No request is in flight; the server stops in a moment.',
  ],
  [{ ...stopping, hangs: 'Process 7 did not end.' }, 'Process 7 did not end. Its memory stays counted until then.'],
  [
    { ...exited, left: 'Of its processes 8 did not end.' },
    'Of its processes 8 did not end. The agent tries again, and starts nothing in its place until then.',
  ],
])('$kind $trouble $drain', (state, message) => {
  expect(serverView({}, state)).toMatchObject({ message })
})

test.each([2, 1, 0])('of %i requests that finish the sentence is told apart from what lasts', (requestsInFlight) => {
  const state: ServerState = { ...stopping, drain: { requestsInFlight, endsAt: 29_500 } }
  const view = serverView({}, state)
  expect(drainFigures(state)).toBe('message' in view ? view.message : '')
})

test('what tells of no requests that finish has no such figures', () => {
  expect([ready, stopping, undefined].map(drainFigures)).toEqual([undefined, undefined, undefined])
})
