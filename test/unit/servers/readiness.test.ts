import { expect, test, vi } from 'vitest'
import type { PortListeners } from '../../../src/agent-core/platform/platform.ts'
import type { ProbeAnswer } from '../../../src/agent-core/servers/probe.ts'
import { watchStart, type StartWatch } from '../../../src/agent-core/servers/readiness.ts'

const ours: PortListeners = { ours: [42], others: [] }
const answered = (status: number): ProbeAnswer => ({ kind: 'answered', status })

type Scripted = Partial<Omit<StartWatch, 'listeners'>> & {
  answers?: ProbeAnswer[]
  listeners?: (PortListeners | Error)[]
}

/** A start whose probes and listeners are scripted; the last of each repeats. */
async function start({ answers = [answered(200)], listeners = [ours], ...rest }: Scripted) {
  const told: string[] = []
  const next = <T>(queue: T[]): T => {
    const [head] = queue.length > 1 ? queue.splice(0, 1) : queue
    if (head === undefined) throw new Error('nothing scripted')
    return head
  }
  const verdict = await watchStart({
    port: 1,
    stallMs: 60_000,
    signal: new AbortController().signal,
    figures: () => Promise.resolve({ residentBytes: 0, outputBytes: 0, cpuMs: 0, processes: 1 }),
    onLoading: () => told.push('loading'),
    onTrouble: (message) => told.push(message),
    probe: () => Promise.resolve(next(answers)),
    listeners: () => {
      const listener = next(listeners)
      return listener instanceof Error ? Promise.reject(listener) : Promise.resolve(listener)
    },
    ...rest,
  })
  return { verdict, told }
}

const silent: ProbeAnswer = { kind: 'silent', reason: 'ECONNREFUSED' }

test('loading is told once, and only 200 is ready', async () => {
  const answers = [silent, answered(404), answered(503), answered(503), answered(200)]
  expect(await start({ answers })).toEqual({ verdict: { kind: 'ready' }, told: ['loading'] })
})

test('an answer is not ours while somebody else listens on the port as well', async () => {
  const holder = { pid: 7, command: 'nginx' }
  expect(await start({ listeners: [{ ours: [42], others: [holder] }] })).toEqual({
    verdict: { kind: 'portTaken', holders: [holder] },
    told: [],
  })
})

test('a system that cannot say who listens delays the verdict, and says so', async () => {
  const hangs = new Error('lsof hangs')
  expect(await start({ listeners: [hangs, hangs, ours] })).toEqual({
    verdict: { kind: 'ready' },
    told: ['could not tell who listens on the port', 'could not tell who listens on the port'],
  })
})

test.each([
  ['memory grows', (n: number) => ({ residentBytes: n * 1024 * 1024, outputBytes: 5, cpuMs: 0, processes: 1 })],
  ['it computes', (n: number) => ({ residentBytes: 0, outputBytes: 5, cpuMs: n * 100, processes: 1 })],
  ['output grows', (n: number) => ({ residentBytes: 0, outputBytes: n, cpuMs: 0, processes: 1 })],
])('a start is not stalled while %s', async (_, figure) => {
  let sample = 0
  const { verdict } = await start({
    answers: [...Array.from({ length: 20 }, () => answered(503)), answered(200)],
    stallMs: 200,
    figures: () => Promise.resolve(figure(++sample)),
  })
  expect(verdict).toEqual({ kind: 'ready' })
})

test('touching a few pages is no progress', async () => {
  let sample = 0
  const figures = () => Promise.resolve({ residentBytes: 4096 * ++sample, outputBytes: 0, cpuMs: 0, processes: 1 })
  expect((await start({ answers: [answered(503)], stallMs: 200, figures })).verdict).toEqual({ kind: 'stalled' })
})

test('computing alone is progress for a while only', async () => {
  let sample = 0
  const figures = () => Promise.resolve({ residentBytes: 0, outputBytes: 5, cpuMs: 100 * ++sample, processes: 1 })
  const started = performance.now()
  const { verdict } = await start({ answers: [answered(503)], stallMs: 200, busyLimitMs: 400, figures })
  expect([verdict, performance.now() - started >= 500]).toEqual([{ kind: 'stalled' }, true])
})

test('a start of which the system does not tell the processor time counts as computing', async () => {
  const figures = () => Promise.resolve({ residentBytes: 0, outputBytes: 5, cpuMs: undefined, processes: 1 })
  const answers = [...Array.from({ length: 20 }, () => answered(503)), answered(200)]
  expect((await start({ answers, stallMs: 200, figures })).verdict).toEqual({ kind: 'ready' })
})

test('an hour of sleep between two looks counts for a start as one long look', async () => {
  const real = performance.now.bind(performance)
  let sleeps = 0
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => real() + sleeps * 3_600_000)
  try {
    const probe = () => Promise.resolve((sleeps++, silent))
    const { verdict } = await start({ probe, stallMs: 12_900 })
    expect([verdict, sleeps]).toEqual([{ kind: 'stalled' }, 4])
  } finally {
    clock.mockRestore()
  }
})

test('a start that this process cannot ask, or look at, is not stalled', async () => {
  const cannotAsk: ProbeAnswer = { kind: 'cannotAsk', reason: 'no file descriptors' }
  const blind = Array.from({ length: 8 }, () => cannotAsk)
  expect(await start({ answers: [...blind, answered(200)], stallMs: 100 })).toEqual({
    verdict: { kind: 'ready' },
    told: ['could not ask a server whether it is ready'],
  })
  const figures = () => Promise.reject(Object.assign(new Error('no file descriptors'), { code: 'EMFILE' }))
  const answers = [...Array.from({ length: 8 }, () => silent), answered(200)]
  expect((await start({ answers, stallMs: 100, figures })).verdict).toEqual({ kind: 'ready' })
})

test('a server that answers is not stalled because nobody can tell who listens', async () => {
  const hangs = Array.from({ length: 8 }, () => new Error('lsof hangs'))
  expect((await start({ listeners: [...hangs, ours], stallMs: 100 })).verdict).toEqual({ kind: 'ready' })
})
