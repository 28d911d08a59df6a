import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { bucketsBetween, hourMs, sumOf, withSpending, nothingKept } from '../../../src/agent-core/power/kept-energy.ts'
import type { ServiceSpending, Spending } from '../../../src/agent-core/power/energy-account.ts'
import { EnergyLedger } from '../../../src/agent-core/power/energy.ts'
import { eventually } from '../../support/eventually.ts'
import { Recorder } from '../../support/running-agent.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const start = Date.parse('2026-11-02T10:15:00Z')
const dayMs = 24 * hourMs

function spending(joules: number, shares: Record<string, Partial<ServiceSpending>> = {}): Spending {
  const nothing = { joules: 0, promptTokens: 0, generatedTokens: 0, measuredTokens: 0 }
  const services = Object.entries(shares).map(([key, share]) => [key, { ...nothing, ...share }] as const)
  return { measured: { joules, ms: joules === 0 ? 0 : 1_000 }, services: new Map(services) }
}

async function opened(file: string, now: () => number = () => start, writeEveryMs = 600_000) {
  const log = new Recorder()
  return { log, ledger: await EnergyLedger.open({ file, log, now, writeEveryMs }) }
}

const all = ({ kept }: EnergyLedger) => sumOf(bucketsBetween(kept, -Infinity, Infinity))

test('what is counted outlives the agent, by service and namespace', async () => {
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'energy.json')
  const first = await opened(file)
  first.ledger.add(spending(100, { 'a/chat': { joules: 60, generatedTokens: 30, requests: 1 }, 'b/chat': {} }))
  await first.ledger[Symbol.asyncDispose]()
  const second = await opened(file)
  second.ledger.add(spending(50, { 'a/chat': { joules: 40, promptTokens: 5 }, 'b/chat': { joules: 10 } }))
  expect(second.ledger.notice).toBeUndefined()
  expect(all(second.ledger)).toMatchObject({
    ...{ joules: 150, measuredMs: 2_000 },
    services: [
      { namespace: 'a', name: 'chat', joules: 100, promptTokens: 5, generatedTokens: 30, requests: 1 },
      { namespace: 'b', name: 'chat', joules: 10, promptTokens: 0, generatedTokens: 0 },
    ],
  })
  await second.ledger[Symbol.asyncDispose]()
})

test('whatever a server says it counted, what is written is read again', async () => {
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'energy.json')
  const { ledger } = await opened(file)
  const absurd = { joules: 9e15, generatedTokens: 9e15, requests: 9e15 }
  for (let n = 0; n < 2; n += 1) ledger.add(spending(9e15, { 'a/chat': absurd, 'b/chat': { joules: 1 } }))
  await ledger[Symbol.asyncDispose]()
  const again = await opened(file)
  expect(again.ledger.notice).toBeUndefined()
  expect(all(again.ledger)).toMatchObject({ joules: 1e15, services: [{ generatedTokens: 1e15 }, { joules: 2 }] })
  await again.ledger[Symbol.asyncDispose]()
})

test('it is written while the agent runs too, so that a crash costs minutes and not the day', async () => {
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'energy.json')
  const { ledger } = await opened(file, () => start, 20)
  ledger.add(spending(100))
  await eventually(async () => (await readFile(file, 'utf8')).includes('100'), { what: 'the file' })
})

test.each([
  ['is no JSON', '{"schema":1,'],
  ['has a figure that cannot be', '{"schema":1,"hours":[{"at":0,"joules":-1,"measuredMs":0,"services":[]}],"days":[]}'],
  ['is of a later schema', '{"schema":2,"hours":[],"days":[]}'],
  ['is huge', ' '.repeat(8 * 1_024 * 1_024 + 1)],
])('a file that %s is set aside with one sentence, and counting begins anew', async (_, content) => {
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'energy.json')
  await writeFile(file, content)
  const { ledger } = await opened(file)
  expect(ledger.notice).toBe(
    `${file} could not be parsed and was set aside as energy.json.broken-${start}: the energy counted before is forgotten.`,
  )
  ledger.add(spending(7))
  await ledger[Symbol.asyncDispose]()
  expect(await readdir(folder.dir)).toEqual(['energy.json', `energy.json.broken-${start}`])
  expect(all((await opened(file)).ledger)?.joules).toBe(7)
})

test('a disk that takes nothing is said once, and what was counted meanwhile is written when it does again', async () => {
  await using folder = await temporaryFolder()
  const inside = path.join(folder.dir, 'later')
  const file = path.join(inside, 'energy.json')
  const { ledger, log } = await opened(file, () => start, 5)
  ledger.add(spending(1))
  await eventually(() => log.warnings.length === 1, { what: 'the warning' })
  ledger.add(spending(2))
  await mkdir(inside)
  await ledger[Symbol.asyncDispose]()
  expect(all((await opened(file)).ledger)?.joules).toBe(3)
  expect(log.warnings).toHaveLength(1)
})

test('a file that cannot be read stops nothing and is not written over', async () => {
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'energy.json')
  await mkdir(file)
  const { ledger } = await opened(file)
  expect(ledger.notice).toMatch(/energy\.json cannot be read: .*What is counted now is lost when the agent exits\.$/)
  ledger.add(spending(5))
  await ledger[Symbol.asyncDispose]()
  expect([all(ledger)?.joules, await readdir(folder.dir)]).toEqual([5, ['energy.json']])
})

test('a clock that is set back and forth only labels: nothing is lost, and nothing is negative', async () => {
  await using folder = await temporaryFolder()
  let now = start
  const { ledger } = await opened(path.join(folder.dir, 'energy.json'), () => now)
  for (const to of [start, start - 400 * dayMs, Date.parse('2099-01-01'), 0, start + 60_000]) {
    now = to
    ledger.add(spending(10, { 'a/chat': { joules: 4 } }))
  }
  expect(all(ledger)).toMatchObject({ joules: 50, services: [{ joules: 20 }] })
  expect(ledger.kept.hours.map(({ at }) => at)).toEqual(ledger.kept.hours.map(({ at }) => at).toSorted((a, b) => a - b))
  expect(sumOf(bucketsBetween(ledger.kept, start - dayMs, start + dayMs))?.joules).toBe(20)
})

test('hours become days, and what is kept has an end, whatever is counted', () => {
  let kept = nothingKept
  for (let hour = 0; hour < 300; hour += 1) {
    const shares = Array.from({ length: 100 }, (_, index) => [`ns/model-${index}`, { joules: 1 }] as const)
    kept = withSpending(kept, spending(200, Object.fromEntries(shares)), start + hour * hourMs)
  }
  const rows = [...kept.hours, ...kept.days].flatMap(({ services }) => services)
  expect(rows.length).toBeLessThanOrEqual(4_000)
  expect(sumOf([...kept.days, ...kept.hours])).toMatchObject({ joules: 60_000, measuredMs: 300_000 })
  const [day] = kept.days
  expect(day?.services).toHaveLength(65)
  expect(day?.services.reduce((sum, { joules }) => sum + joules, 0)).toBe((day?.joules ?? 0) / 2)
  for (let days = 0; days < 2_000; days += 1) kept = withSpending(kept, spending(1), start + days * dayMs)
  expect([kept.hours.length, kept.days.length]).toEqual([192, 400])
})
