import { expect, test } from 'vitest'
import { stepsOf } from '../../../../src/agent-core/agent/snapshot/steps.ts'

test.each([
  ['while its process is being started', false, { started: { status: 'active' }, healthy: { status: 'waiting' } }],
  ['once its process runs', true, { started: { status: 'done' }, healthy: { status: 'active', message: 'Loading.' } }],
])('a server is at one step at a time: %s', (_, hasProcess, expected) => {
  const steps = stepsOf(
    {
      fetch: { kind: 'done', source: 'https://models.example/a.gguf' },
      server: { kind: 'starting', digest: 'd1', failures: 0, message: 'Loading.' },
      publication: {
        claim: 'ours',
        message: '',
        retryAt: undefined,
        service: 'ours',
        serviceMessage: '',
        shown: undefined,
        complete: true,
        present: true,
      },
      clusterRetry: undefined,
    },
    undefined,
    undefined,
    hasProcess,
  )
  expect(steps).toEqual({
    fetched: { status: 'done' },
    published: { status: 'waiting' },
    clusterAgrees: { status: 'waiting' },
    ...expected,
  })
})
