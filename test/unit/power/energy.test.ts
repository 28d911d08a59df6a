import path from 'node:path'
import { afterEach, expect, test, vi } from 'vitest'
import { Energy, type EnergySettings } from '../../../src/agent-core/power/energy.ts'
import type { WorkTotals } from '../../../src/agent-core/power/energy-account.ts'
import type { PowerView } from '../../../src/contract/power.ts'
import { eventually } from '../../support/eventually.ts'
import { Recorder } from '../../support/running-agent.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

afterEach(() => vi.useRealTimers())

/** An energy room with power, work and a clock as the test states them. */
async function trial() {
  await using parts = new AsyncDisposableStack()
  const folder = parts.use(await temporaryFolder())
  const state = {
    settings: { isKept: false, price: {} } as EnergySettings,
    power: undefined as PowerView | undefined,
    totals: new Map<string, WorkTotals>(),
    seconds: 0,
    counted: 0,
  }
  const energy: Energy = new Energy({
    ...{ file: path.join(folder.dir, 'energy.json'), log: new Recorder(), countEveryMs: 10 },
    settings: () => state.settings,
    power: () => state.power,
    totals: () => state.totals,
    countWork: () => {
      state.counted += 1
      energy.workCounted()
      return Promise.resolve()
    },
    now: () => state.seconds * 1_000,
  })
  parts.use(energy)
  await energy.open()
  const kept = parts.move()
  return {
    energy,
    state,
    /** Seconds of so many watts. */
    draw: (watts: number, seconds: number) => {
      for (let n = 0; n < seconds; n += 1) {
        state.seconds += 1
        energy.powerChanged({ combinedWatts: watts }, 1_000)
      }
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}

test('energy of the machine and of each service, its tokens, and what they cost', async () => {
  await using it = await trial()
  it.state.settings = { isKept: false, price: { perKwh: 0.36, currency: 'EUR' } }
  it.draw(10, 2)
  it.draw(5, 10)
  await it.energy.view({})
  it.draw(100, 36)
  it.state.totals.set('a/chat', { promptTokens: 100, generatedTokens: 900 })
  const view = await it.energy.view({})
  expect(view).toMatchObject({ joules: 3_660, ownJoules: 60, measuredMs: 47_000, currency: 'EUR' })
  expect(view.cost).toBeCloseTo(0.000366)
  expect(view.services).toEqual([
    {
      ...{
        namespace: 'a',
        name: 'chat',
        joules: 3_600,
        promptTokens: 100,
        generatedTokens: 900,
        cost: expect.closeTo(0.00036) as number,
      },
      joulesPerGeneratedToken: 4,
    },
  ])
})

test('the share of the power now is said while it is known, and not when it is old or nothing is measured', async () => {
  await using it = await trial()
  it.state.totals.set('a/one', { generatedTokens: 0 })
  it.draw(30, 1)
  expect(it.energy.shareWatts('a/one')).toBeUndefined()
  it.draw(30, 2)
  it.state.totals
    .set('a/one', { generatedTokens: 20 })
    .set('a/two', { generatedTokens: 10 })
    .set('a/idle', { generatedTokens: 0 })
  it.energy.workCounted()
  const shares = () => ['a/one', 'a/two', 'a/idle', 'a/unknown'].map((key) => it.energy.shareWatts(key))
  expect(shares()).toEqual([20, 10, 0, undefined])
  it.state.seconds += 16
  expect(shares()).toEqual([undefined, undefined, undefined, undefined])
  it.draw(30, 2)
  it.energy.workCounted()
  it.energy.powerChanged(undefined, undefined)
  expect(shares()).toEqual([undefined, undefined, undefined, undefined])
})

test('what was done before anything was measured gets no energy', async () => {
  await using it = await trial()
  it.state.seconds = 3_600
  it.state.totals.set('a/chat', { generatedTokens: 1_000 })
  it.draw(30, 10)
  const [chat] = (await it.energy.view({})).services
  expect(chat).toEqual({ namespace: 'a', name: 'chat', joules: 0, generatedTokens: 1_000 })
})

test.each([500, 2_000, 5_000, 10_000])(
  'tokens cost the same however seldom power is sampled beside looks: every %d ms',
  async (intervalMs) => {
    await using it = await trial()
    const figures = { combinedWatts: 20 }
    const watts = new Set<number | undefined>()
    for (let ms = 0; ms <= 120_000; ms += 500) {
      it.state.seconds = ms / 1_000
      it.state.totals.set('a/chat', { generatedTokens: ms / 100 })
      if (ms % intervalMs === 0) it.energy.powerChanged(figures, intervalMs)
      if (ms % 2_000 === 0) it.energy.workCounted({ isComplete: true })
      if (ms > 2 * intervalMs + 2_000) watts.add(it.energy.shareWatts('a/chat'))
    }
    const [chat] = (await it.energy.view({})).services
    expect(chat).toMatchObject({
      joules: 2_400,
      generatedTokens: 1_200,
      joulesPerGeneratedToken: expect.closeTo(2, 1) as number,
    })
    expect([...watts]).toEqual([20])
    it.energy.powerChanged(figures, intervalMs)
    it.energy.powerChanged(undefined, undefined)
    expect(it.energy.shareWatts('a/chat')).toBeUndefined()
  },
)

test('where power is measured and its sum is not reported, tokens are counted all the same', async () => {
  await using it = await trial()
  for (let second = 0; second < 4; second += 1) {
    it.state.seconds = second
    it.energy.powerChanged({ gpuWatts: 3 }, 1_000)
  }
  it.state.totals.set('a/chat', { generatedTokens: 50 })
  it.energy.workCounted({ isComplete: true })
  expect((await it.energy.view({})).services).toMatchObject([{ joules: 0, generatedTokens: 50 }])
})

test('what is drawn while a server is too busy to answer is given to its work, and not taken for what the machine draws alone', async () => {
  await using it = await trial()
  it.draw(5, 11)
  it.energy.workCounted({ isComplete: true })
  for (let look = 0; look < 5; look += 1) {
    it.draw(40, 2)
    it.energy.workCounted({ isComplete: false })
  }
  it.state.totals.set('a/chat', { promptTokens: 8_000, generatedTokens: 10 })
  it.energy.workCounted({ isComplete: true })
  it.draw(5, 2)
  it.draw(40, 2)
  it.state.totals.set('a/chat', { promptTokens: 8_000, generatedTokens: 20 })
  expect(await it.energy.view({})).toMatchObject({ joules: 540, services: [{ joules: 480, generatedTokens: 20 }] })
})

test('a server that never answers keeps the others from their shares for a minute at most', async () => {
  await using it = await trial()
  it.draw(20, 1)
  it.state.totals.set('a/chat', { generatedTokens: 50 })
  const shares = []
  for (const seconds of [30, 29, 1, 1]) {
    it.draw(20, seconds)
    it.energy.workCounted({ isComplete: false })
    shares.push(it.energy.shareWatts('a/chat'))
  }
  expect(shares).toEqual([undefined, undefined, 20, 20])
})

test('work is counted while nobody looks only where a person asked for it', async () => {
  await using it = await trial()
  it.energy.settingsChanged()
  expect(it.state.counted).toBe(0)
  it.state.settings = { isKept: true, price: {} }
  it.energy.settingsChanged()
  await eventually(() => it.state.counted > 2, { what: 'work to be counted' })
  it.state.settings = { isKept: false, price: {} }
  it.energy.settingsChanged()
  const { counted } = it.state
  await it.energy.view({})
  expect(it.state.counted).toBe(counted + 1)
})

test('what is missing is said with what to turn on, and nothing is shown as 0', async () => {
  await using it = await trial()
  const message = async () => (await it.energy.view({})).message
  const view = await it.energy.view({ since: '2026-01-01T00:00:00Z' })
  expect(view).toEqual({ until: view.until, measuredMs: 0, services: [], message: view.message })
  expect(view.message).toMatch(/^Power is not measured: `metal-agent settings set apple-power-enabled on` /)
  it.state.power = { state: 'idle', message: 'Power is not measured while nobody views it.' }
  expect(await message()).toMatch(/only while somebody views it: `metal-agent settings set energy-ledger on` /)
  it.state.settings = { isKept: true, price: {} }
  expect(await message()).toBe('Power is measured all the time.')
  it.state.power = { state: 'failed', message: 'sudo asks for a password.' }
  expect(await message()).toBe('sudo asks for a password.')
})

test('a time is asked about by its hours', async () => {
  await using it = await trial()
  it.draw(10, 11)
  const hourAgo = new Date(Date.now() - 3_600_000).toISOString()
  const dayAgo = new Date(Date.now() - 86_400_000).toISOString()
  expect((await it.energy.view({ since: hourAgo })).joules).toBe(100)
  expect(
    (await it.energy.view({ since: dayAgo, until: new Date(Date.now() - 7_200_000).toISOString() })).joules,
  ).toBeUndefined()
})

test('what was counted while the clock was ahead belongs to no time that is asked about, and is in the whole', async () => {
  await using it = await trial()
  const now = Date.now()
  vi.useFakeTimers({ toFake: ['Date'] })
  vi.setSystemTime(now + 5 * 3_600_000)
  it.draw(10, 11)
  await it.energy.view({})
  vi.setSystemTime(now)
  it.draw(10, 1)
  const since = new Date(now - 3_600_000).toISOString()
  const [ofTheHour, whole] = [await it.energy.view({ since }), await it.energy.view({})]
  expect([ofTheHour.joules, whole.joules]).toEqual([10, 110])
  for (const { from, until } of [ofTheHour, whole]) {
    expect(Date.parse(until)).toBe(now)
    expect(Date.parse(from ?? '')).toBeLessThanOrEqual(now)
  }
})
