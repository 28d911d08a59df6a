import type { Page } from 'playwright'
import { expect, test } from 'vitest'
import type { HistoryEntry } from '../../src/contract/queries.ts'
import { eventually } from '../support/eventually.ts'
import type { FakeAgent } from '../support/window/fake-agent.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

const entry = (id: number, message: string, at = '2026-01-02T03:05:00.000Z'): HistoryEntry => ({
  ...{ id, at, kind: 'crashed', message },
  service: { namespace: 'default', name: 'phi-4-mini' },
})

/** As an agent does when something happens. */
function happens(agent: FakeAgent, message: string): void {
  const { entries: before, hasMore } = agent.known.history ?? { entries: [], hasMore: false }
  const id = (before[0]?.id ?? 0) + 1
  agent.known.history = { entries: [entry(id, message), ...before], hasMore }
  agent.show({ ...agent.shown, revision: agent.shown.revision + 1, newestHistoryId: id })
}

const messages = (page: Page) => page.locator('main ol li p').allTextContents()
const asked = (agent: FakeAgent) => agent.queriesOf('history').length

test('what happens is shown as it happens, and asked for only then', async () => {
  await using window = await show(scenes.activity)
  const { page, agent } = window
  await page.getByText('Process 4711.').waitFor()
  const before = asked(agent)
  agent.show({ ...agent.shown, revision: 2, notices: ['Something else has changed.'] })
  happens(agent, 'It crashed at noon.')
  await page.getByText('It crashed at noon.').waitFor()
  happens(agent, 'It crashed again.')
  await page.getByText('It crashed again.').waitFor()
  expect((await messages(page)).slice(0, 3)).toEqual([
    'It crashed again.',
    'It crashed at noon.',
    'It serves requests after 4.2 s.',
  ])
  expect(asked(agent) - before).toBe(2)
})

test('what a person reads stays where it is, and what they filter for stays filtered', async () => {
  await using window = await show({ ...scenes.activity, height: 480 })
  const { page, agent } = window
  await page.getByLabel('Filter').fill('phi')
  const read = page.getByText('Process 4711.')
  await read.evaluate((element) => element.scrollIntoView({ block: 'start' }))
  const top = () => read.evaluate((element) => Math.round(element.getBoundingClientRect().top))
  const before = await top()
  happens(agent, 'It crashed at noon.')
  await eventually(async () => (await messages(page)).includes('It crashed at noon.'))
  expect({
    moved: Math.abs((await top()) - before) > 1,
    filter: await page.getByLabel('Filter').inputValue(),
    others: (await messages(page)).filter((text) => text.startsWith('Agent 1.2.3')),
  }).toEqual({ moved: false, filter: 'phi', others: [] })
})

test('entries that came before are added below, without an end at the first pages', async () => {
  await using window = await show(scenes.activity)
  const { page, agent } = window
  await page.getByText('Agent 1.2.3 started.').waitFor()
  agent.known.history = {
    entries: [
      ...(agent.known.history?.entries ?? []),
      entry(3, 'It crashed in the old year.', '2025-12-31T03:05:00.000Z'),
    ],
    hasMore: false,
  }
  await page.getByRole('button', { name: 'Show more' }).click()
  await page.getByText('It crashed in the old year.').waitFor()
  const texts = await messages(page)
  expect([texts.at(-2), texts.at(-1), await page.getByRole('button', { name: 'Show more' }).count()]).toEqual([
    'Agent 1.2.3 started.',
    'It crashed in the old year.',
    0,
  ])
  expect(agent.queriesOf('history').map(({ limit }) => limit)).toEqual([50, 100])
})

test('an entry leads to its service while it is there, and the filter is as it was after the way back', async () => {
  await using window = await show(scenes.activity)
  const { page, agent } = window
  await page.getByLabel('Filter').fill('serves')
  await page.getByRole('button', { name: 'Only problems' }).click()
  await page.getByRole('button', { name: 'Only problems' }).click()
  await page.getByRole('button', { name: 'Show phi-4-mini' }).first().click()
  await page.getByRole('heading', { name: 'phi-4-mini' }).waitFor()
  await page.getByRole('tab', { name: 'Activity' }).click()
  await page.getByText('It serves requests after 4.2 s.').waitFor()
  const kept = [await page.getByLabel('Filter').inputValue(), await page.getByText('Process 4711.').count()]
  agent.show({ ...agent.shown, revision: 2, services: [] })
  await page.getByRole('button', { name: 'Show phi-4-mini' }).waitFor({ state: 'detached' })
  expect([kept, await page.getByText('phi-4-mini', { exact: true }).count()]).toEqual([['serves', 0], 1])
})

test('what happened is taken back where it stands, by what the entry says, and only while it is so', async () => {
  await using window = await show(scenes.activity)
  const { page, agent } = window
  await page.getByRole('button', { name: 'Bring back' }).click()
  await eventually(() => agent.asked.length === 1)
  agent.answer({ outcome: 'done', message: 'It may be served again.' })
  await page.getByText('It may be served again.').waitFor()
  await page.getByRole('button', { name: 'Back to 30s' }).click()
  await eventually(() => agent.asked.length === 2)
  const services = agent.shown.services.filter(({ hold }) => hold?.cause !== 'evicted')
  agent.show({ ...agent.shown, revision: 2, services })
  await page.getByRole('button', { name: 'Bring back' }).waitFor({ state: 'detached' })
  expect(agent.asked.map(({ command }) => command)).toEqual([
    { name: 'bringBack', service: { namespace: 'default', name: 'phi-3-medium' } },
    { name: 'updateSettings', settings: { drainLimitMs: 30_000 } },
  ])
})
