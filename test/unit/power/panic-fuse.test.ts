import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { ServerState } from '../../../src/agent-core/servers/server-state.ts'
import type { ServerListener } from '../../../src/agent-core/servers/servers.ts'
import { PanicFuse, type PanicFuseOptions } from '../../../src/agent-core/power/panic-fuse.ts'
import { eventually } from '../../support/eventually.ts'
import { silentLog } from '../../support/silent-log.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

/** A report of a panic that is looked for a second time, and found when the test says so. */
function lateReport() {
  const found = Promise.withResolvers<boolean>()
  const look = vi.fn<() => Promise<boolean>>().mockResolvedValueOnce(false).mockReturnValue(found.promise)
  const isLookedFor = () => eventually(() => look.mock.calls.length === 2)
  return { look, isLookedFor, found: () => found.resolve(true) }
}

const minuteMs = 60_000
const memory: PanicFuseOptions['memory'] = { budget: { bytes: 100 }, listen: () => undefined }
const noServers: PanicFuseOptions['servers'] = { onChange: () => () => undefined, state: () => new Map() }

/** The fuse in the boot after one that ended while a model ran. */
async function fuseAfterEnd(more: Partial<PanicFuseOptions> = {}) {
  const folder = await temporaryFolder()
  const add = vi.fn<PanicFuseOptions['history']['add']>()
  const enqueue = vi.fn<(key: string) => void>()
  const onChange = vi.fn<() => void>()
  const fuse = await PanicFuse.open({
    stateDir: folder.dir,
    platform: { hasPanicReportSince: () => Promise.resolve(false) },
    servers: noServers,
    memory,
    history: { add },
    log: silentLog,
    enqueue,
    onChange,
    timings: { gatherMs: 0, reportEveryMs: 0 },
    ...more,
  })
  await fuse.booted({ bootId: 'two', starts: [{ bootId: 'one', intendedAt: '2026-11-23T10:00:00.000Z' }] })
  return { fuse, add, enqueue, onChange, folder }
}

test.each([
  ['ahead', 365 * 86_400_000],
  ['behind', -365 * 86_400_000],
])(
  'a start that the ledger dates by a clock that was %s counts its half hour from the boot at the earliest',
  async (_what, errorMs) => {
    vi.useFakeTimers()
    try {
      const now = Date.parse('2026-11-23T12:00:00.000Z')
      const intendedAt = new Date(now + errorMs).toISOString()
      const timings = { gatherMs: 0, reportEveryMs: 0, outliveMs: 1_800_000 }
      const { fuse, folder } = await fuseAfterEnd({ timings, now: () => now, uptimeMs: () => 300_000 })
      await using _folder = folder
      using _fuse = fuse
      await fuse.booted({ bootId: 'two', starts: [{ bootId: 'two', intendedAt }] })
      await vi.advanceTimersByTimeAsync(1_490_000)
      const during = fuse.view?.state
      await vi.advanceTimersByTimeAsync(330_000)
      vi.useRealTimers()
      await eventually(() => fuse.view === undefined)
      expect(during).toBe('inTurn')
    } finally {
      vi.useRealTimers()
    }
  },
)

describe('a machine that stays up for half an hour after a start', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  /** In the boot after a disorderly end; `start` starts a model. */
  async function startedFuse() {
    let listener: ServerListener = () => undefined
    const states = new Map<string, ServerState>()
    const servers: PanicFuseOptions['servers'] = {
      state: () => states,
      onChange: (heard) => {
        listener = heard
        return () => (listener = () => undefined)
      },
    }
    const { fuse, folder } = await fuseAfterEnd({ servers, timings: { gatherMs: 0, reportLooks: 0 } })
    const file = join(folder.dir, 'panic-fuse.json')
    return {
      fuse,
      folder,
      start: () => listener('a/b', { kind: 'starting', since: 0 }, 'current'),
      hear: (key: string, state: ServerState) => {
        states.set(key, state)
        listener(key, state, 'current')
      },
      /** As it is on the disk when all is written. */
      written: async (): Promise<unknown> => {
        await fuse.leaving()
        return JSON.parse(await readFile(file, 'utf8'))
      },
      outlivedUpTo: (at: number) =>
        vi.waitFor(async () => expect(await readFile(file, 'utf8')).toContain(new Date(at).toISOString())),
    }
  }

  test('survived each start, however many follow, and the last one too', async () => {
    const { fuse, folder, start, outlivedUpTo } = await startedFuse()
    await using _folder = folder
    using _fuse = fuse
    const began = Date.now()
    for (let minutes = 0; minutes < 40; minutes += 10) {
      const inTurn = { state: 'inTurn', since: new Date(began).toISOString() }
      expect(fuse.view).toEqual(minutes < 30 ? expect.objectContaining(inTurn) : undefined)
      start()
      await vi.advanceTimersByTimeAsync(10 * minuteMs)
    }
    await outlivedUpTo(began)
    await vi.advanceTimersByTimeAsync(11 * minuteMs)
    await outlivedUpTo(began + 20 * minuteMs)
    await vi.advanceTimersByTimeAsync(60 * minuteMs)
    await outlivedUpTo(began + 30 * minuteMs)
  })

  test('has survived that start alone, not what became of the server, nor one that nobody asked for', async () => {
    const { fuse, folder, start, hear, outlivedUpTo, written } = await startedFuse()
    await using _folder = folder
    using _fuse = fuse
    const began = Date.now()
    start()
    await vi.advanceTimersByTimeAsync(10 * minuteMs)
    hear('a/b', { kind: 'loading', since: 0, pid: 1, port: 1 })
    hear('a/c', { kind: 'starting', since: 0, unasked: true })
    await vi.advanceTimersByTimeAsync(21 * minuteMs)
    await outlivedUpTo(began)
    await vi.advanceTimersByTimeAsync(60 * minuteMs)
    expect(await written()).toMatchObject({ outlivedUpTo: new Date(began).toISOString(), leftIn: 'two' })
  })

  test('has not survived it while it slept', async () => {
    const { fuse, folder, start } = await startedFuse()
    await using _folder = folder
    using _fuse = fuse
    const clock = performance.now.bind(performance)
    start()
    await vi.advanceTimersByTimeAsync(minuteMs)
    const wake = vi.spyOn(performance, 'now').mockImplementation(() => clock() + 60 * minuteMs)
    await vi.advanceTimersByTimeAsync(28 * minuteMs)
    const during = fuse.view?.state
    await vi.advanceTimersByTimeAsync(2 * minuteMs)
    wake.mockRestore()
    expect([during, fuse.view]).toEqual(['inTurn', undefined])
  })
})

test.each<[when: string, does: string, state: ServerState, leftIn: string | null]>([
  ['while a model loads', 'notes the boot', { kind: 'loading', since: 0, pid: 1, port: 1 }, 'two'],
  ['when nothing runs', 'notes nothing', { kind: 'failedToSpawn', since: 0, message: '', failures: 1 }, null],
])('an agent that is asked to end %s %s', async (_when, _does, state, leftIn) => {
  const servers = { ...noServers, state: () => new Map([['a/b', state]]) }
  const { fuse, folder } = await fuseAfterEnd({ servers })
  await using _folder = folder
  using _fuse = fuse
  await fuse.leaving()
  expect(JSON.parse(await readFile(join(folder.dir, 'panic-fuse.json'), 'utf8'))).toMatchObject({ leftIn })
})

test('a late report of a panic is told', async () => {
  const { look, isLookedFor, found } = lateReport()
  const { fuse, add, folder } = await fuseAfterEnd({ platform: { hasPanicReportSince: look } })
  await using _folder = folder
  using _fuse = fuse
  await isLookedFor()
  found()
  await eventually(() => add.mock.calls.length === 2)
  expect(fuse.view?.state).toBe('held')
})

test.each<[string, (fuse: PanicFuse) => Promise<unknown>]>([
  ['a person had all models served again', (fuse) => fuse.serveAgain()],
  [
    'the agent ended',
    (fuse) => {
      fuse[Symbol.dispose]()
      return Promise.resolve()
    },
  ],
])('a report that is found while %s says nothing', async (_what, happens) => {
  const { look, isLookedFor, found } = lateReport()
  const { fuse, add, onChange, folder } = await fuseAfterEnd({ platform: { hasPanicReportSince: look } })
  await using _folder = folder
  using _fuse = fuse
  await isLookedFor()
  await happens(fuse)
  onChange.mockClear()
  found()
  await new Promise(setImmediate)
  expect(add).toHaveBeenCalledOnce()
  expect(onChange).not.toHaveBeenCalled()
  expect(fuse.view?.state).not.toBe('held')
  expect(await readFile(join(folder.dir, 'panic-fuse.json'), 'utf8')).toContain('"held": null')
})

test('the model that asks first waits until others could ask too, and each asks again when the smallest is known', async () => {
  const { fuse, enqueue, folder } = await fuseAfterEnd()
  await using _folder = folder
  using _fuse = fuse
  const asked = [fuse.ask('a/large', 'd', 50), fuse.ask('a/small', 'd', 1)]
  const notYet = expect.objectContaining({
    message: expect.stringContaining('which is the smallest') as string,
  }) as object
  expect(asked).toEqual([notYet, notYet])
  await eventually(() => enqueue.mock.calls.length === 2)
  expect(enqueue.mock.calls).toEqual([['a/large'], ['a/small']])
  expect(fuse.ask('a/large', 'd', 50)?.message).toContain('a/small goes first')
  expect(fuse.ask('a/small', 'd', 1)).toBeUndefined()
})

test('what is forgotten holds up no other, whether it waits or has its turn', async () => {
  const { fuse, enqueue, folder } = await fuseAfterEnd()
  await using _folder = folder
  using _fuse = fuse
  const isGathered = () => fuse.obstacleOf('old/small', 'd') === undefined
  fuse.ask('old/small', 'd', 1)
  fuse.ask('new/large', 'd', 50)
  await eventually(isGathered)
  expect(fuse.ask('new/large', 'd', 50)?.message).toContain('old/small goes first')
  fuse.forgetWhere((key) => key.startsWith('old/'))
  expect(enqueue).toHaveBeenCalledWith('new/large')
  expect(fuse.ask('new/large', 'd', 50)).toBeUndefined()
  fuse.ask('new/middle', 'd', 10)
  fuse.forgetWhere((key) => key === 'new/large')
  await eventually(() => fuse.ask('new/middle', 'd', 10) === undefined)
})

test('where the budget is not known a model is held after a panic, and asks again when it is', async () => {
  const budget: { bytes?: number } = {}
  let look: () => void = () => undefined
  const unknown: PanicFuseOptions['memory'] = {
    get budget() {
      return budget.bytes === undefined ? undefined : { bytes: budget.bytes }
    },
    listen: ({ onSample }) => (look = onSample),
  }
  const { fuse, enqueue, folder } = await fuseAfterEnd({
    platform: { hasPanicReportSince: () => Promise.resolve(true) },
    memory: unknown,
  })
  await using _folder = folder
  using _fuse = fuse
  fuse.ask('a/small', 'd', 1)
  expect(fuse.obstacleOf('a/small', 'd')).toMatchObject({
    reason: 'HeldAfterPanic',
    message: expect.stringContaining('of a memory budget that is not known, does not start automatically') as string,
  })
  budget.bytes = 100
  await eventually(() => fuse.obstacleOf('a/small', 'd') === undefined)
  enqueue.mockClear()
  look()
  expect(enqueue).toHaveBeenCalledWith('a/small')
})

test('that a model is held is news once, for the agent that is started next as well, until a person serves it again', async () => {
  const { fuse, folder } = await fuseAfterEnd({ platform: { hasPanicReportSince: () => Promise.resolve(true) } })
  await using _folder = folder
  const first = [fuse.isNews('a/b'), fuse.isNews('a/b'), fuse.isNews('a/c')]
  await eventually(async () => (await readFile(join(folder.dir, 'panic-fuse.json'), 'utf8')).includes('a/c'))
  fuse[Symbol.dispose]()
  using next = await PanicFuse.open({
    stateDir: folder.dir,
    platform: { hasPanicReportSince: () => Promise.resolve(false) },
    servers: noServers,
    memory,
    history: { add: () => undefined },
    log: silentLog,
    enqueue: () => undefined,
    onChange: () => undefined,
  })
  const second = [next.isNews('a/b'), next.isNews('a/d')]
  await next.serveAgain()
  expect([first, second, next.isNews('a/b')]).toEqual([[true, false, true], [false, true], false])
})
