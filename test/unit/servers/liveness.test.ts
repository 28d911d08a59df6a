import { describe, expect, test, vi } from 'vitest'
import {
  advanceOf,
  livenessTimings,
  missedAfterMs,
  watchLiveness,
  type Advance,
} from '../../../src/agent-core/servers/liveness.ts'
import type { Use } from '../../../src/agent-core/servers/poller.ts'
import { eventually } from '../../support/eventually.ts'
import { ask, ServerRoom, untilInFlight } from './server-room.ts'

const never = 1_000_000
const liveness = {
  everyMs: 20,
  answerWithinMs: 100,
  followUpMs: 20,
  misses: 3,
  hungMisses: never,
  excusedMisses: never,
  progressEveryMs: 40,
  stuckLooks: 3,
}

test('with the defaults, one that hangs is unhealthy within 20 s and ended within 40 s', () => {
  const { misses, hungMisses } = livenessTimings
  expect([missedAfterMs(livenessTimings, misses), missedAfterMs(livenessTimings, hungMisses)]).toEqual([18_000, 33_000])
})

describe('requests in flight', () => {
  const counted = (requests: number, work: number) => ({ answer: 'counted', requests, work }) as const
  const unknown = { requests: undefined, work: undefined }
  const before: Advance = { work: 100, cpuMs: 5_000, at: 0, stuck: 2 }

  test.each([
    ['that wrote tokens advance', counted(1, 101), 5_000, 0],
    ['that use the processor advance', counted(1, 100), 5_600, 0],
    ['that do neither stand', counted(1, 100), 5_599, 3],
    ['of a server that tells nothing any more stand', { ...unknown, answer: 'silent' }, 5_000, 3],
    ['that are none do neither', counted(0, 100), 5_000, undefined],
    ['that nobody counts do neither', { ...unknown, answer: 'untold' }, 5_000, undefined],
    [
      'of a server that counts nothing stand with its processor',
      { answer: 'untold', requests: 1, work: undefined },
      5_049,
      3,
    ],
    ['of one that hands work to its GPU advance', { answer: 'untold', requests: 1, work: undefined }, 5_050, 0],
  ] as const)('%s', (_, use, cpuMs, stuck) => {
    expect(advanceOf(before, use, { cpuMs, at: 60_000 })?.stuck).toBe(stuck)
  })
})

test('a server that is suspended is unhealthy after several misses, and healthy with its next answer; it is the same process', async () => {
  await using room = await ServerRoom.create({ liveness })
  room.start()
  const { pid, port, readySince } = await room.reached('ready')
  process.kill(pid, 'SIGSTOP')
  const unhealthy = await room.reached('ready', { where: ({ healthy }) => !healthy })
  const well = [room.servers.counted().map(({ isWell }) => isWell)]
  const from = room.changes.length
  process.kill(pid, 'SIGCONT')
  const healthy = await room.reached('ready', { from, where: (state) => state.healthy })
  well.push(room.servers.counted().map(({ isWell }) => isWell))
  expect(well).toEqual([[false], [true]])
  const same = { kind: 'ready', pid, port, readySince, since: expect.any(Number) as number }
  expect([unhealthy, healthy]).toEqual([
    { ...same, healthy: false, trouble: 'suspended' },
    { ...same, healthy: true },
  ])
})

test('a server that accepts connections and never answers is ended', async () => {
  await using room = await ServerRoom.create({ liveness: { ...liveness, hungMisses: 5 } })
  room.start({ hangAfterMs: 700 })
  await room.reached('ready')
  expect(await room.settled()).toMatchObject({
    cause: 'hung',
    failures: 1,
    message:
      'sample-server.cjs hung (its process was alive, but it neither answered nor worked), so the agent stopped it.',
  })
})

test('a server that computes and has no time for an answer is left alone', async () => {
  let missed = 0
  const onProbe = (_key: string, _seconds: number, healthy: boolean) => {
    missed += healthy ? 0 : 1
  }
  await using room = await ServerRoom.create({ liveness: { ...liveness, hungMisses: 5 }, onProbe })
  room.start({ spinAfterMs: 1_000 })
  await room.reached('ready')
  await eventually(() => missed >= 12)
  expect(room.servers.get('a/b')).toMatchObject({ kind: 'ready', healthy: true })
})

test('a server whose requests stand still although it answers is ended', async () => {
  await using room = await ServerRoom.create({ liveness: { ...liveness, everyMs: 250, progressEveryMs: 250 } })
  room.start({ tokenMs: 60_000 })
  const { port } = await room.reached('ready')
  const answer = ask(port)
  expect(await room.settled()).toMatchObject({
    cause: 'hung',
    message:
      'sample-server.cjs hung (it made no progress on any request in flight for minutes), so the agent stopped it.',
  })
  expect(await answer).toBe('cut')
})

test.each([
  ['whose requests advance is left alone', { tokenMs: 5 }, {}],
  ['that must not be asked is not asked', { tokenMs: 60_000 }, { sleepsWhenIdle: true }],
])('a server %s', async (_, script, launch) => {
  let probes = 0
  await using room = await ServerRoom.create({
    liveness: { ...liveness, progressEveryMs: 50 },
    onProbe: () => (probes += 1),
  })
  room.start(script, launch)
  const { port } = await room.reached('ready')
  const answer = ask(port, { max_tokens: 4_000 })
  await untilInFlight(port)
  const from = probes
  await eventually(() => probes > from + 30)
  expect(room.servers.get('a/b')).toMatchObject({ kind: 'ready', healthy: true })
  await room.servers.stop('a/b', { drainMs: 0 })
  await answer
})

/** `works`: no answer, but the processor is used. */
type Answer = number | 'silent' | 'works' | 'cannotAsk'

const told = (answer: Use['answer'], requests?: number, work?: number): Use => ({
  ...{ answer, requests, work, idleForMs: 0 },
})

interface Watching {
  /** To one look after the other at what it does; the last one is given again. */
  readonly uses?: readonly Use[]
  readonly asksForProgress?: boolean
  readonly progressEveryMs?: number
}

/** What is told about a server that answers so, one probe every 10 ms of a clock that only probes advance. */
async function watchOver(
  answers: readonly Answer[],
  { uses = [told('silent')], asksForProgress = true, progressEveryMs = never }: Watching = {},
) {
  const seen = { news: [] as unknown[], probes: [] as boolean[], looks: 0 }
  const end = new AbortController()
  const process = { pid: 1, groupId: 1, startTime: '', commandLine: '', suspended: false }
  let asked = 0
  let cpuMs = 0
  let now = 0
  using _clock = vi.spyOn(performance, 'now').mockImplementation(() => now)
  const hang = await watchLiveness({
    port: 1,
    timings: {
      ...{ ...liveness, everyMs: 1, followUpMs: 1, progressEveryMs },
      ...{ misses: 3, hungMisses: 6, excusedMisses: 4 },
    },
    signal: end.signal,
    asksForProgress,
    members: () => Promise.resolve([{ ...process, cpuMs }]),
    onHealth: (healthy, trouble) => seen.news.push(trouble ?? healthy),
    onProbe: (_seconds, healthy) => seen.probes.push(healthy),
    poller: { look: () => Promise.resolve(uses[seen.looks++] ?? uses.at(-1) ?? told('silent')) },
    onTrouble: (message) => seen.news.push(message),
    probe: () => {
      now += 10
      const answer = answers[asked++]
      if (answer === undefined) end.abort()
      if (answer === 'works') cpuMs += 1_000
      if (typeof answer === 'number') return Promise.resolve({ kind: 'answered', status: answer })
      return Promise.resolve({ kind: answer === 'cannotAsk' ? answer : 'silent', reason: 'scripted' })
    },
  })
  if (hang !== undefined) seen.news.push(`hung: ${hang}`)
  return seen
}

const times = (count: number, answer: Answer): Answer[] => Array.from({ length: count }, () => answer)

test.each<[string, Answer[], unknown[]]>([
  ['answers', times(4, 200), []],
  ['is busy with itself', times(5, 503), []],
  ['is silent for less than the limit', [...times(2, 'silent'), 200, ...times(2, 'silent'), 200], []],
  ['fails', times(4, 500), ['failing']],
  ['fails on and on', times(6, 500), ['failing', 'hung: failing']],
  ['falls silent after it failed', [...times(3, 500), 'silent'], ['failing', 'silent']],
  ['works in its silence', ['silent', ...times(4, 'works'), 200], []],
  ['works between its misses', [...times(2, 'silent'), 'works', ...times(2, 'silent')], []],
  ['works for longer than is forgiven', ['silent', ...times(7, 'works')], ['silent']],
  ['works and still does not answer', ['silent', ...times(10, 'works')], ['silent', 'hung: silent']],
  ['works after it was given up, and has to answer', [...times(3, 'silent'), ...times(2, 'works')], ['silent']],
  [
    'is not ended while it works',
    [...times(3, 'silent'), ...times(4, 'works'), ...times(2, 'silent'), 200],
    ['silent', true],
  ],
  [
    'cannot be asked by this process',
    ['silent', ...times(8, 'cannotAsk'), 'silent', 200],
    ['could not check the health of a server'],
  ],
  ['comes back, and goes again', [...times(3, 'silent'), 200, ...times(3, 500)], ['silent', true, 'failing']],
])('a server that %s', async (_, answers, news) => {
  expect((await watchOver(answers)).news).toEqual(news)
})

test.each(['counted', 'untold'] as const)(
  'a server that misses its probes and answers where its counters are asked for (%s) works',
  async (answer) => {
    const { news, looks } = await watchOver(times(5, 'silent'), { uses: [told(answer, 1, 1)] })
    // The first miss asks nothing; the probe that ends the watch does.
    expect([news, looks]).toEqual([[], 5])
  },
)

test('every probe is told with what it says of the server, but one that this process could not send', async () => {
  const { probes } = await watchOver([200, 503, 500, 'silent', 'cannotAsk', 200])
  expect(probes).toEqual([true, true, false, false, true])
})

test.each<[string, Watching, { news: unknown[]; looks: number }]>([
  ['stand still', { uses: [told('counted', 1, 5)] }, { news: ['hung: stuck'], looks: 4 }],
  [
    'stand still and are told no longer',
    { uses: [told('counted', 1, 5), told('silent')] },
    { news: ['hung: stuck'], looks: 4 },
  ],
  ['were never told', { uses: [told('silent')] }, { news: [], looks: 12 }],
  ['are none', { uses: [told('counted', 0, 5)] }, { news: [], looks: 12 }],
  ['must not be asked about', { uses: [told('counted', 1, 5)], asksForProgress: false }, { news: [], looks: 0 }],
  ['are looked at now and then', { uses: [told('counted', 0, 5)], progressEveryMs: 40 }, { news: [], looks: 3 }],
])('a server that answers and whose requests %s', async (_, watching, expected) => {
  expect(await watchOver(times(12, 200), { progressEveryMs: 0, ...watching })).toMatchObject(expected)
})
