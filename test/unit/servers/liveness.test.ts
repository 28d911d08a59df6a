import { describe, expect, test } from 'vitest'
import {
  advanceOf,
  afterLook,
  livenessTimings,
  missedAfterMs,
  steadyPulse,
  verdictOn,
  type Advance,
  type Look,
} from '../../../src/agent-core/servers/liveness.ts'
import { cpuMsOf } from '../../../src/agent-core/servers/process-group.ts'
import { watchLiveness } from '../../../src/agent-core/servers/liveness.ts'
import { eventually } from '../../support/eventually.ts'
import { ask, livingPids, ServerRoom, untilInFlight } from './server-room.ts'

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

describe('the verdict', () => {
  const timings = { ...livenessTimings, misses: 3, hungMisses: 5, excusedMisses: 4 }
  const looks: Readonly<Record<string, Look>> = {
    '+': { kind: 'alive' },
    '-': { kind: 'missed', trouble: 'silent', working: false },
    w: { kind: 'missed', trouble: 'silent', working: true },
  }

  test.each([
    ['a server that answers', '+++', 'healthy'],
    ['fewer misses than the limit', '--', 'healthy'],
    ['misses that are not in a row', '--+--', 'healthy'],
    ['as many misses as the limit', '---', 'unhealthy'],
    ['an answer after them', '---+', 'healthy'],
    ['misses that go on', '-----', 'hung'],
    ['silence in which it works', '-wwww', 'healthy'],
    ['work after misses', '--w--', 'healthy'],
    ['work for longer than is forgiven', 'wwwwwww', 'unhealthy'],
    ['… and still no answer', 'wwwwwwwww', 'hung'],
    ['work of one that was given up: it has to answer', '---w', 'unhealthy'],
    ['… but is not ended while it works', '---wwww-', 'unhealthy'],
  ])('%s', (_, story, verdict) => {
    const pulse = story
      .split('')
      .reduce((before, sign) => afterLook(before, looks[sign] ?? { kind: 'alive' }, timings), steadyPulse)
    expect(verdictOn(pulse, timings)).toBe(verdict)
  })

  test('with the defaults, one that hangs is unhealthy within 20 s and ended within 40 s', () => {
    const { misses, hungMisses } = livenessTimings
    expect([missedAfterMs(livenessTimings, misses), missedAfterMs(livenessTimings, hungMisses)]).toEqual([
      18_000, 33_000,
    ])
  })
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
  ] as const)('%s', (_, use, cpuMs, stuck) => {
    expect(advanceOf(before, use, { cpuMs, at: 60_000 })?.stuck).toBe(stuck)
  })
})

test('processor time of which a part is not told is not known', () => {
  expect([cpuMsOf([{ cpuMs: 10 }, { cpuMs: 20 }]), cpuMsOf([{ cpuMs: 10 }, {}]), cpuMsOf([])]).toEqual([
    30,
    undefined,
    0,
  ])
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

test('a server that stays suspended is ended, which counts as a failure', async () => {
  await using room = await ServerRoom.create({ liveness: { ...liveness, hungMisses: 5 } })
  room.start({}, { stopGraceMs: 50 })
  const { pid } = await room.reached('ready')
  process.kill(pid, 'SIGSTOP')
  expect(await room.settled()).toMatchObject({
    cause: 'hung',
    outOf: 'serving',
    signal: 'SIGKILL',
    failures: 1,
    retryAt: expect.any(Number) as number,
    message:
      'sample-server.mjs was suspended (by SIGSTOP, a terminal or a debugger) and answered no more, so it was ended.',
  })
  expect([room.kinds(), await livingPids(pid)]).toEqual([
    ['starting', 'starting', 'ready', 'ready', 'stopping', 'exited', 'settled'],
    [],
  ])
})

test('a server that accepts connections and never answers is ended', async () => {
  await using room = await ServerRoom.create({ liveness: { ...liveness, hungMisses: 5 } })
  room.start({ hangAfterMs: 700 })
  await room.reached('ready')
  expect(await room.settled()).toMatchObject({
    cause: 'hung',
    failures: 1,
    message: 'sample-server.mjs hung (its process was there, but it neither answered nor worked), so it was ended.',
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
    message: 'sample-server.mjs hung (it did not advance any of the requests in flight for minutes), so it was ended.',
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

/** What is told about a server that answers so, one probe after the other. */
const unknownUse = { requests: undefined, work: undefined, idleForMs: 0 }

async function toldOver(answers: readonly (number | 'silent' | 'cannotAsk')[]): Promise<unknown[]> {
  const told: unknown[] = []
  const end = new AbortController()
  let asked = 0
  const hang = await watchLiveness({
    port: 1,
    timings: { ...liveness, everyMs: 1, followUpMs: 1, hungMisses: 6, progressEveryMs: never },
    signal: end.signal,
    asksForProgress: true,
    members: () => Promise.resolve([]),
    onHealth: (healthy, trouble) => told.push(trouble ?? healthy),
    onProbe: () => {},
    poller: { look: () => Promise.resolve({ ...unknownUse, answer: 'silent' }) },
    onTrouble: (message) => told.push(message),
    probe: () => {
      const answer = answers[asked++]
      if (answer === undefined) end.abort()
      return Promise.resolve(
        typeof answer === 'number'
          ? { kind: 'answered', status: answer }
          : { kind: answer ?? 'silent', reason: 'scripted' },
      )
    },
  })
  return hang === undefined ? told : [...told, `hung: ${hang}`]
}

test.each<[string, Parameters<typeof toldOver>[0], unknown[]]>([
  ['answers', [200, 200, 200, 200], []],
  ['is busy with itself', [503, 503, 503, 503, 503], []],
  ['fails', [500, 500, 500, 500], ['failing']],
  ['fails on and on', [500, 500, 500, 500, 500, 500], ['failing', 'hung: failing']],
  ['falls silent after it failed', [500, 500, 500, 'silent'], ['failing', 'silent']],
  [
    'cannot be asked by this process',
    ['silent', ...Array.from({ length: 8 }, () => 'cannotAsk' as const), 'silent', 200],
    ['could not ask a server whether it is well'],
  ],
  ['comes back, and goes again', ['silent', 'silent', 'silent', 200, 500, 500, 500], ['silent', true, 'failing']],
])('a server that %s', async (_, answers, told) => {
  expect(await toldOver(answers)).toEqual(told)
})
