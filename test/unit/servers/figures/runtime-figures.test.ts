import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { RuntimeCounters } from '../../../../src/agent-core/servers/probe.ts'
import type { Use } from '../../../../src/agent-core/servers/poller.ts'
import type { CountedServer } from '../../../../src/agent-core/servers/service-server.ts'
import { RuntimeFigures } from '../../../../src/agent-core/servers/figures/runtime-figures.ts'

beforeEach(() => vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

type Facts = Omit<CountedServer, 'look'>

const server: Facts = {
  ...{ key: 'default/a', run: 'run-1', pid: 1, port: 1, digest: 'd' },
  ...{ sleepsWhenIdle: false, isFound: false, isWell: true },
}

/** Servers whose answers a test says, by port. */
function room(servers: Facts[] = [server]) {
  const answers = new Map<number, RuntimeCounters | 'untold' | 'silent'>()
  const asked: number[] = []
  const state = { changes: 0, complete: [] as boolean[] }
  const now = () => Date.now()
  const look = (facts: Facts): Promise<Use> => {
    asked.push(facts.port)
    const answer = answers.get(facts.port) ?? 'silent'
    if (typeof answer !== 'string') figures.note(facts, { counters: answer, askedAt: now() })
    const kind = typeof answer === 'string' ? answer : 'counted'
    return Promise.resolve({ answer: kind, requests: 0, work: 0, idleForMs: 0 })
  }
  const figures: RuntimeFigures = new RuntimeFigures({
    servers: () => servers.map((facts) => ({ ...facts, look: () => look(facts) })),
    onChange: () => (state.changes += 1),
    onAsked: ({ isComplete }) => void state.complete.push(isComplete),
    now,
  })
  return { figures, answers, asked, servers, state }
}

const work = (generatedTokens: number): RuntimeCounters => ({
  ...{ promptTokens: 10, promptSeconds: 1, generatedTokens, generationSeconds: generatedTokens / 50 },
  requestsRunning: 1,
})

test('nobody, or an icon, asks nothing; a menu asks every five seconds, a window every two', async () => {
  const { figures, asked } = room()
  const counts: number[] = []
  for (const looker of [undefined, 'icon', 'menu', 'window', undefined] as const) {
    const before = asked.length
    figures.setLooker(looker)
    await vi.advanceTimersByTimeAsync(9_999)
    counts.push(asked.length - before)
  }
  expect(counts).toEqual([0, 0, 2, 5, 0])
  await figures[Symbol.asyncDispose]()
})

test('what changed is told, what did not is not, and what is not asked for any more is not shown', async () => {
  const { figures, answers, state } = room()
  answers.set(1, work(100))
  figures.setLooker('window')
  await vi.advanceTimersByTimeAsync(4_000)
  expect([state.changes, figures.view('default/a')]).toEqual([1, { state: 'reported', requestsRunning: 1 }])
  answers.set(1, work(200))
  await vi.advanceTimersByTimeAsync(2_000)
  expect(figures.view('default/a')).toMatchObject({
    generatedTokensPerSecond: 50,
    lastRequestAt: expect.any(String) as string,
  })
  figures.setLooker('icon')
  expect([figures.view('default/a'), state.changes]).toEqual([undefined, 3])
  await figures.refresh()
  expect(figures.view('default/a')).toMatchObject({ state: 'reported' })
  await vi.advanceTimersByTimeAsync(15_000)
  expect(figures.view('default/a')).toBeUndefined()
  await figures[Symbol.asyncDispose]()
})

test('totals only rise: over restarts, for two servers at once, and without what an adopted one counted before', async () => {
  const { figures, answers, servers } = room()
  const generated = async () => {
    await vi.advanceTimersByTimeAsync(10)
    await figures.refresh()
    return figures.totals().get('default/a')?.generatedTokens
  }
  answers.set(1, work(100)).set(2, work(30))
  const seen = [await generated()]
  answers.set(1, work(150))
  servers.push({ ...server, run: 'run-2', port: 2 })
  seen.push(await generated())
  figures.note(server, { counters: work(160), askedAt: Date.now() })
  servers.shift()
  seen.push(await generated())
  answers.set(2, work(5))
  seen.push(await generated())
  servers.push({ ...server, run: 'run-3', port: 3, isFound: true })
  answers.set(3, work(1_000))
  seen.push(await generated())
  answers.set(3, work(1_001))
  seen.push(await generated())
  expect(seen).toEqual([100, 180, 190, 195, 195, 196])
  await figures[Symbol.asyncDispose]()
})

test.each<[string, Partial<CountedServer>, RuntimeCounters | 'untold' | 'silent', RegExp | undefined, number]>([
  ['that tells nothing is not reported', {}, 'untold', /reports no figures/, 1],
  ['that counts a look as use is not asked', { sleepsWhenIdle: true }, work(1), /are not read/, 0],
  ['that does not answer its probes is not asked', { isWell: false }, work(1), undefined, 0],
  ['that has not answered yet has no figures yet', {}, 'silent', undefined, 1],
])('a server %s', async (_, changes, answer, message, requests) => {
  const { figures, answers, asked } = room([{ ...server, ...changes }])
  answers.set(1, answer)
  await figures.refresh()
  expect([figures.view('default/a'), asked.length]).toEqual([
    message && { state: 'notReported', message: expect.stringMatching(message) as string },
    requests,
  ])
  await figures[Symbol.asyncDispose]()
})

test('a busy server keeps its figures for a while, and one that stays silent has none', async () => {
  const { figures, answers } = room()
  answers.set(1, work(1))
  figures.setLooker('window')
  await vi.advanceTimersByTimeAsync(0)
  answers.set(1, 'silent')
  await vi.advanceTimersByTimeAsync(14_000)
  expect(figures.view('default/a')?.state).toBe('reported')
  await vi.advanceTimersByTimeAsync(4_000)
  expect(figures.view('default/a')).toMatchObject({ state: 'notReported', message: /does not answer/ })
  await figures[Symbol.asyncDispose]()
})

test('a server that has never answered is told as silent after 15 s', async () => {
  const { figures, answers } = room()
  answers.set(1, 'silent')
  const views: unknown[] = []
  for (const afterMs of [0, 15_000, 1]) {
    await vi.advanceTimersByTimeAsync(afterMs)
    await figures.refresh()
    views.push(figures.view('default/a')?.state)
  }
  expect(views).toEqual([undefined, undefined, 'notReported'])
  await figures[Symbol.asyncDispose]()
})

test('a server that ends while it is asked is not counted a second time', async () => {
  const { figures, answers, servers, state } = room()
  answers.set(1, work(100))
  await figures.refresh()
  const asking = figures.refresh()
  servers[0] = { ...server, run: 'run-2', port: 2 }
  figures.note(servers[0], { counters: work(1), askedAt: Date.now() })
  await asking
  expect([figures.totals().get('default/a')?.generatedTokens, state.complete]).toEqual([101, [true, true]])
  await figures[Symbol.asyncDispose]()
})
