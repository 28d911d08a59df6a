import { expect, test } from 'vitest'
import { activityFrom, askActivity } from '../../../src/agent-core/servers/activity.ts'
import { eventually } from '../../support/eventually.ts'
import { ask, ServerRoom } from './server-room.ts'

test.each([
  [
    'what is processed and what waits are in flight; what only rises is work',
    [
      '# TYPE llamacpp:requests_processing gauge',
      'llamacpp:requests_processing 2',
      'llamacpp:requests_deferred 3',
      'llamacpp:prompt_tokens_total 1.5e+06',
      'llamacpp:tokens_predicted_total 40',
      'llamacpp:predicted_tokens_seconds 99.5',
    ],
    {
      kind: 'counted',
      requests: 5,
      work: 1_500_040,
      reading: {
        askedAt: 7,
        counters: { requestsRunning: 2, requestsWaiting: 3, promptTokens: 1_500_000, generatedTokens: 40 },
      },
    },
  ],
  [
    'figures that cannot be true are as if they were not told',
    [
      'llamacpp:requests_processing NaN',
      'llamacpp:requests_deferred 1',
      'llamacpp:prompt_tokens_total -5',
      'llamacpp:tokens_predicted_total 1e999',
      'llamacpp:prompt_seconds_total 1.2.3',
      'llamacpp:n_decode_total +Inf',
      'llamacpp:tokens_predicted_seconds_total 1e16',
      'llamacpp:kv_cache_usage_ratio 1.5',
    ],
    { kind: 'counted', requests: 1, work: 0, reading: { askedAt: 7, counters: { requestsWaiting: 1 } } },
  ],
  ['a page tells nothing', ['<html>', 'llamacpp:requests_processing 2</html>'], { kind: 'untold' }],
  ['figures of another program tell nothing', ['http_requests_total 4'], { kind: 'untold' }],
  ['an empty answer tells nothing', [], { kind: 'untold' }],
])('%s', (_, lines, activity) => {
  expect(activityFrom(lines.join('\n'), 7)).toEqual(activity)
})

test('a server tells how many requests it works on, and its work rises with them', async () => {
  await using room = await ServerRoom.create()
  room.start({ tokenMs: 5 })
  const { port } = await room.reached('ready')
  const answer = ask(port, { max_tokens: 60 })
  const first = await eventually(async () => {
    const activity = await askActivity(port, 2_000)
    return activity.kind === 'counted' && activity.requests === 1 ? activity : undefined
  })
  expect(await answer).toBe('answered')
  const after = await askActivity(port, 2_000)
  expect(after).toMatchObject({ kind: 'counted', requests: 0, work: expect.any(Number) as number })
  expect(after.kind === 'counted' && after.work > first.work).toBe(true)
})

test('a server without counters is told from one that does not answer, and from one that is not there', async () => {
  await using room = await ServerRoom.create()
  room.start({ noMetrics: true })
  const { port, pid } = await room.reached('ready')
  const untold = await askActivity(port, 2_000)
  process.kill(pid, 'SIGSTOP')
  expect([untold, await askActivity(port, 50), await askActivity(1, 50)]).toEqual([
    { kind: 'untold' },
    { kind: 'silent' },
    { kind: 'silent' },
  ])
})
