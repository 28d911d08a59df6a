import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { sampleSnapshot } from '../support/sample-snapshot.ts'
import { ready } from '../support/window/scene-services.ts'
import { scenes } from '../support/window/scenes.ts'
import { tell, turnTo } from './setting-pages.ts'
import { useStage } from './stage.ts'

const show = useStage()
const done = { outcome: 'done', message: 'Done.' } as const

/** The page with the field that most tests write in. */
const runtimes = scenes['settings-runtimes']

test('settings are a draft until they are applied, whatever the agent says meanwhile', async () => {
  await using window = await show(runtimes)
  const { page, agent } = window
  const field = page.getByLabel('Time for requests to finish', { exact: true })
  const apply = page.getByRole('button', { name: 'Apply' })
  await field.fill('soon')
  await page.getByText('It must be a duration such as 30s or 2m, from 0 to 1h.').waitFor()
  const refused = await apply.isDisabled()
  await field.fill('45s')
  await turnTo(page, 'Memory')
  await page
    .locator('label')
    .filter({ hasText: /^Evict models when memory runs out$/ })
    .click()
  await tell(page, 'Fraction of memory for models')
  await page.getByRole('button', { name: 'Use the default of Fraction of memory for models' }).click()
  await turnTo(page, 'Runtimes')
  await field.focus()
  const known = agent.known.settings?.settings ?? []
  agent.known.settings = {
    start: [],
    settings: known.map((view) => {
      if (view.name === 'drainLimitMs') return { ...view, value: 1_000, from: 'person' as const }
      return view.name === 'llamaServer' ? { ...view, value: '/opt/llama-server' } : view
    }),
  }
  // The settings are asked for anew once the agent is back: the other field tells that they were drawn.
  agent.leave()
  agent.comeBack(sampleSnapshot({ bootId: 'boot-2', services: [ready] }))
  const other = page.getByLabel('Path of llama-server', { exact: true })
  await eventually(async () => (await other.inputValue()) === '/opt/llama-server')
  const kept = { text: await field.inputValue(), focus: await field.evaluate((one) => one === document.activeElement) }
  await page.getByText('3 changes, not applied:').waitFor()
  agent.answers.push(done)
  await apply.click()
  await eventually(() => agent.asked.length === 1)
  expect({ refused, kept, asked: agent.asked[0]?.command }).toEqual({
    refused: true,
    kept: { text: '45s', focus: true },
    asked: {
      name: 'updateSettings',
      settings: { drainLimitMs: 45_000, evictionEnabled: true, memoryFraction: null },
    },
  })
  await page.getByText('No changes').waitFor()
  await eventually(async () => (await field.inputValue()) === '1s')
})

test('a draft outlasts a look at another view, and what is written while it is applied is not lost', async () => {
  await using window = await show(runtimes)
  const { page, agent } = window
  const field = page.getByLabel('Time for requests to finish', { exact: true })
  await field.fill('45s')
  await page.getByRole('tab', { name: 'Activity' }).click()
  await page.getByRole('heading', { name: 'Activity' }).waitFor()
  await page.getByRole('tab', { name: 'Settings' }).click()
  await page.getByText('1 change, not applied').waitFor()
  const kept = await field.inputValue()
  await page.getByLabel('Path of llama-server', { exact: true }).fill('/opt/llama-server')
  await page.getByRole('button', { name: 'Apply' }).click()
  await eventually(() => agent.asked.length === 1)
  await field.fill('50s')
  agent.answer(done)
  await page.getByText('1 change, not applied').waitFor()
  expect({ kept, written: await field.inputValue() }).toEqual({ kept: '45s', written: '50s' })
})

test('what was set elsewhere is seen at once, and what a person has written stays', async () => {
  await using window = await show(runtimes)
  const { page, agent } = window
  const written = page.getByLabel('Time for requests to finish', { exact: true })
  const untouched = page.getByLabel('Path of llama-server', { exact: true })
  const known = agent.known.settings?.settings ?? []
  let revision = 1
  const setElsewhere = (values: Readonly<Record<string, number | string>>) => {
    const settings = known.map((view) => ({ ...view, value: values[view.name] ?? view.value }))
    agent.known.settings = { settings, start: [] }
    agent.show({ ...agent.shown, revision: agent.shown.revision + 1, settingsRevision: ++revision })
  }
  await written.fill('45s')
  setElsewhere({ llamaServer: '/opt/llama-server' })
  await eventually(async () => (await untouched.inputValue()) === '/opt/llama-server')
  setElsewhere({ llamaServer: '/opt/other', drainLimitMs: 60_000 })
  await eventually(async () => (await untouched.inputValue()) === '/opt/other')
  expect(await written.inputValue()).toBe('45s')
  setElsewhere({ llamaServer: '/opt/other', drainLimitMs: 45_000 })
  await page.getByText('No changes').waitFor()
})

test('the budget is moved with the keyboard', async () => {
  await using window = await show(scenes['settings-wide'])
  const { page, agent } = window
  const slider = page.getByRole('slider', { name: 'Memory for models' })
  const field = page.getByLabel('Fraction of memory for models', { exact: true })
  const before = await slider.inputValue()
  await slider.focus()
  await page.keyboard.press('ArrowRight')
  await eventually(async () => (await field.inputValue()) !== '')
  const moved = await field.inputValue()
  await page.keyboard.press('Home')
  await page.keyboard.press('PageUp')
  const asked = agent.asked.length
  await field.fill('0.5')
  await eventually(async () => (await slider.inputValue()) === '49')
  await field.fill('5')
  await page.getByText('100 % ·').waitFor()
  const tooMuch = await page.getByText('% ·').textContent()
  await field.fill('0.5')
  await page.getByRole('button', { name: 'Apply' }).click()
  await eventually(() => agent.asked.length === 1)
  expect({ before, moved, tooMuch, asked, command: agent.asked[0]?.command }).toEqual({
    before: '79',
    moved: '0.81',
    tooMuch: '100 % · 96.0 GB (89.4 GiB)',
    asked: 0,
    command: { name: 'updateSettings', settings: { memoryFraction: 0.5 } },
  })
})

test('another address is used at once, and another cluster only after a question', async () => {
  await using window = await show(scenes['settings-network'])
  const { page, agent } = window
  await page.getByRole('button', { name: 'Use 100.64.0.10' }).click()
  await eventually(() => agent.asked.length === 1)
  agent.answer(done)
  const unfit = await page.getByRole('button', { name: 'Use 169.254.7.7' }).count()
  await turnTo(page, 'Cluster')
  await page.getByRole('button', { name: 'Serve prod-eu' }).click()
  const before = agent.asked.length
  const safe = await page.getByRole('button', { name: 'Stay' }).evaluate((one) => one === document.activeElement)
  await page.getByRole('button', { name: 'Yes, serve it' }).click()
  await eventually(() => agent.asked.length === 2)
  expect({ before, safe, unfit, asked: agent.asked.map(({ command }) => command) }).toEqual({
    ...{ before: 1, safe: true, unfit: 0 },
    asked: [
      { name: 'setHostAddress', address: '100.64.0.10' },
      { name: 'selectContext', context: 'prod-eu', accept: ['production'] },
    ],
  })
})

test('a change that the agent does not take stays in the draft', async () => {
  await using window = await show(runtimes)
  const { page, agent } = window
  await page.getByLabel('Time for requests to finish', { exact: true }).fill('45s')
  agent.answers.push({ outcome: 'refused', by: 'agent', message: 'The file cannot be written.' })
  await page.getByRole('button', { name: 'Apply' }).click()
  await page.getByText('The file cannot be written.').waitFor()
  expect(await page.getByLabel('Time for requests to finish', { exact: true }).inputValue()).toBe('45s')
})
