import { expect, test } from 'vitest'
import { watchLiveness } from '../../../src/agent-core/process/liveness.ts'
import { ServerRoom } from './server-room.ts'

const liveness = { everyMs: 20, answerWithinMs: 50, misses: 3 }

test('a server that hangs is unhealthy after several misses, and healthy with its next answer; it is the same process', async () => {
  await using room = await ServerRoom.create({ liveness })
  room.start()
  const { pid, port, readySince } = await room.reached('ready')
  process.kill(pid, 'SIGSTOP')
  const unhealthy = await room.reached('ready', { where: ({ healthy }) => !healthy })
  const from = room.changes.length
  process.kill(pid, 'SIGCONT')
  const healthy = await room.reached('ready', { from })
  expect([unhealthy, healthy]).toEqual([
    { kind: 'ready', healthy: false, pid, port, readySince, since: expect.any(Number) as number },
    { kind: 'ready', healthy: true, pid, port, readySince, since: expect.any(Number) as number },
  ])
})

/** What is told about a server that answers so, one probe after the other. */
async function healthOver(answers: readonly (number | 'silent')[]): Promise<boolean[]> {
  const told: boolean[] = []
  const end = new AbortController()
  let asked = 0
  await watchLiveness({
    port: 1,
    timings: { ...liveness, everyMs: 1 },
    signal: end.signal,
    onHealth: (healthy) => told.push(healthy),
    probe: () => {
      const answer = answers[asked++]
      if (answer === undefined) end.abort()
      return Promise.resolve(
        typeof answer === 'number' ? { kind: 'answered', status: answer } : { kind: 'silent', reason: 'scripted' },
      )
    },
  })
  return told
}

test.each<[string, (number | 'silent')[], boolean[]]>([
  ['a server that answers', [200, 200, 200, 200], []],
  ['fewer misses than the limit', ['silent', 'silent', 200], []],
  ['misses that are not in a row', ['silent', 'silent', 200, 'silent', 'silent', 200], []],
  ['a server that is busy with itself', [503, 503, 503, 503, 503], []],
  ['a server that fails', [500, 500, 500, 500], [false]],
  [
    'a server that comes back, and goes again',
    ['silent', 'silent', 'silent', 200, 500, 500, 500],
    [false, true, false],
  ],
])('%s', async (_, answers, told) => {
  expect(await healthOver(answers)).toEqual(told)
})
