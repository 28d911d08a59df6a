import { expect, test } from 'vitest'

import { eventually } from '../support/eventually.ts'
import { sampleSnapshot } from '../support/sample-snapshot.ts'
import { held, ready } from '../support/window/scene-services.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()
const done = { outcome: 'done', message: 'Done.' } as const

test.each([
  {
    scene: 'does-not-fit',
    press: ['Evict llama-3.3-70b'],
    command: { name: 'evict', service: service('llama-3.3-70b') },
  },
  {
    scene: 'does-not-fit',
    press: ['Use 4,096 tokens'],
    command: { name: 'setContextSize', service: service('llama-70b'), contextSize: 4_096 },
  },
  {
    scene: 'does-not-fit',
    press: ['Raise the budget to 90.0 GB'],
    command: { name: 'updateSettings', settings: { memoryBudgetBytes: 90_000_000_000 } },
  },
  {
    scene: 'delete',
    press: ['Delete phi-4-mini'],
    command: { name: 'deleteModel', service: service('phi-4-mini'), uid: 'ready', evenIfManaged: false },
  },
  { scene: 'evicted', press: ['Bring back'], command: { name: 'bringBack', service: service('deepseek-r1-8b') } },
  { scene: 'draining', press: ['Skip the wait'], command: { name: 'skipDrain', service: service('smollm-360m') } },
  {
    scene: 'detail',
    press: ['Release to other machines'],
    command: { name: 'release', service: service('phi-4-mini') },
  },
  { scene: 'services', press: ['Pause this machine'], command: { name: 'pauseNode' } },
  { scene: 'services', press: ['Resync'], command: { name: 'resync' } },
  {
    scene: 'models',
    press: ['Delete smollm-360m', 'Yes, delete it'],
    command: { name: 'removeModel', model: 'smollm-360m' },
  },
  {
    scene: 'models',
    press: ['Delete unused models…', 'Delete 2 models'],
    command: { name: 'pruneModels', dryRun: false },
  },
  {
    scene: 'models',
    press: ['Cancel the download of qwen3-30b-a3b'],
    command: { name: 'cancelPull', model: 'qwen3-30b-a3b' },
  },
] as const)(
  '$press asks the agent for it, and for nothing before the last press',
  async ({ scene, press, command }) => {
    await using window = await show(scenes[scene])
    const { page, agent } = window
    for (const name of press) {
      expect(agent.asked).toEqual([])
      await page.getByRole('button', { name, exact: true }).click()
    }
    await eventually(() => agent.asked.length === 1)
    expect(agent.asked[0]?.command).toEqual(command)
  },
)

test.each([
  {
    press: 'Use 4,096 tokens',
    undo: { name: 'setContextSize', service: service('llama-70b'), contextSize: 32_768 },
  },
  { press: 'Evict llama-3.3-70b', undo: { name: 'bringBack', service: service('llama-3.3-70b') } },
  {
    press: 'Raise the budget to 90.0 GB',
    undo: { name: 'updateSettings', settings: { memoryBudgetBytes: null } },
  },
])('$press can be undone, for as long as nobody dismisses that', async ({ press, undo }) => {
  await using window = await show(scenes['does-not-fit'])
  const { page, agent } = window
  agent.answers.push(done, done)
  await page.getByRole('button', { name: press, exact: true }).click()
  await page.getByRole('button', { name: 'Undo', exact: true }).click()
  await eventually(() => agent.asked.length === 2)
  expect(agent.asked[1]?.command).toEqual(undo)
  await page.getByRole('button', { name: 'Undo', exact: true }).waitFor({ state: 'detached' })
})

test('a way is no button where something else has to do it', async () => {
  await using window = await show(scenes['does-not-fit'])
  const { page } = window
  const ways = page.getByRole('list', { name: 'What would make it fit' })
  await ways.getByRole('button', { name: 'Raise the budget to 90.0 GB' }).waitFor()
  const buttons = await ways
    .getByRole('listitem')
    .evaluateAll((items) => items.map((item) => item.querySelectorAll('button:not([aria-label])').length))
  expect(buttons).toEqual([1, 0, 1, 0, 1])
})

test('what a service needs and what is left is said in the words of the agent alone', async () => {
  await using window = await show(scenes['does-not-fit'])
  const { page } = window
  await page.getByRole('list', { name: 'What would make it fit' }).waitFor()
  const told = new Set(await page.getByText(/\bit needs\b/i).allTextContents())
  expect([...told]).toEqual(['It needs 43.9 GB, and 26.4 GB are left in the budget of 72.0 GB.'])
})

test('what came of a deletion is told in the list, once the service is gone, and the focus goes there', async () => {
  await using window = await show(scenes['delete-managed'])
  const { page, agent } = window
  await page.getByRole('button', { name: 'Delete phi-4-mini all the same' }).click()
  await eventually(() => agent.asked.length === 1)
  expect(agent.asked[0]?.command).toMatchObject({ name: 'deleteModel', evenIfManaged: true })
  agent.show(sampleSnapshot({ revision: 2, services: [held] }))
  await page.getByRole('region', { name: 'Overview' }).and(page.locator(':focus')).waitFor()
  agent.answer({ outcome: 'done', message: 'default/phi-4-mini is deleted.' })
  await page.getByRole('status').getByText('default/phi-4-mini is deleted.').waitFor()
})

test('a model is fetched by its source, which Enter sends as well', async () => {
  await using window = await show(scenes.models)
  const { page, agent } = window
  const field = page.getByLabel('Fetch a model')
  await field.fill('  hf://org/repo/file.gguf ')
  await field.press('Enter')
  await eventually(() => agent.asked.length === 1)
  expect(agent.asked[0]?.command).toEqual({ name: 'pullModel', source: 'hf://org/repo/file.gguf' })
})

test('the list of models is up to date while a download goes on', async () => {
  await using window = await show(scenes.models)
  const { page, agent } = window
  await page.getByText('412 GB free').waitFor()
  const { models } = agent.known
  const [download] = agent.shown.downloads
  if (models === undefined || download === undefined) throw new Error('This scene has a store and a download.')
  agent.known.models = { ...models, freeBytes: 399e9 }
  const done = { ...download, name: 'small', state: 'done' as const }
  const before = agent.queriesOf('models').length
  let bytes = 0
  await eventually(async () => {
    const progress = { doneBytes: ++bytes, totalBytes: 1e9, bytesPerSecond: 1 }
    agent.show({ ...agent.shown, revision: agent.shown.revision + 1, downloads: [{ ...download, progress }, done] })
    return (await page.getByText('399 GB free').count()) === 1
  })
  expect(agent.queriesOf('models').length).toBe(before + 1)
})

test('activity is filtered by words and by what went wrong', async () => {
  await using window = await show(scenes.activity)
  const { page } = window
  const shown = async () => (await page.getByRole('listitem').locator('strong').allTextContents()).join(', ')
  await eventually(async () => (await shown()).startsWith('Ready'))
  await page.getByLabel('Filter').fill('phi SIGKILL')
  await eventually(async () => (await shown()) === 'Crashed')
  await page.getByLabel('Filter').fill('')
  await page.getByRole('button', { name: 'Only problems' }).click()
  await eventually(async () => (await shown()) === 'Crashed, Evicted')
  await page.getByLabel('Filter').fill('<b>nothing</b>')
  await page.getByText('Nothing of what is shown here matches.').waitFor()
})

test('energy is asked for anew each minute, for the time that a person chose, and has a table', async () => {
  await using window = await show(scenes.energy)
  const { page, agent } = window
  const asks = () => agent.queriesOf('energy').length
  await page.getByText('2.08 kWh · 0.75 EUR').waitFor()
  const begin = Date.parse(agent.shown.now)
  const at = (ms: number) => agent.show({ ...agent.shown, now: new Date(begin + ms).toISOString() })
  for (let second = 1; second < 20; second += 1) at(second * 1_000)
  await page.getByRole('radio', { name: '30 days' }).click()
  await eventually(() => asks() === 2)
  for (let second = 20; second < 50; second += 1) at(second * 1_000)
  const inTheMinute = asks()
  at(61_000)
  await eventually(() => asks() === 3)
  await page.getByText('As a table').click()
  const table = page.getByRole('table')
  const rows = (await table.getByRole('row').allTextContents()).slice(0, 4)
  expect({ inTheMinute, rows }).toEqual({
    inTheMinute: 2,
    rows: [
      'DayWhoseEnergy',
      'Saturday 27 DecemberThis Mac310 Wh · 0.11 EUR',
      'phi-4-miniabout 120 Wh · 0.04 EUR',
      'qwen3-30b-a3b-instruct-2507-q4-k-m-with-a-very-long-nameabout 90.0 Wh · 0.03 EUR',
    ],
  })
})

test('the part of one service is seen in the bars once it is chosen', async () => {
  await using window = await show(scenes.energy)
  const { page } = window
  const heights = () => page.locator('rect').evaluateAll((bars) => bars.map((bar) => bar.getAttribute('height')))
  await page.getByText('2.08 kWh').waitFor()
  const before = await heights()
  await page.getByRole('button', { name: 'Show nomic-embed in the bars' }).click()
  await page.getByText('services', { exact: true }).waitFor({ state: 'detached' })
  const after = await heights()
  const [all, part] = [0, 1].map((first) => (list: readonly unknown[]) => list.filter((_, n) => n % 2 === first))
  expect({
    all: all?.(after),
    isLess: part?.(after).every((height, n) => Number(height) < Number(part(before)[n])),
  }).toEqual({
    all: all?.(before),
    isLess: true,
  })
})

test('settings are a draft until they are applied, whatever the agent says meanwhile', async () => {
  await using window = await show(scenes.settings)
  const { page, agent } = window
  const field = page.getByLabel('Time for requests to finish', { exact: true })
  const apply = page.getByRole('button', { name: 'Apply' })
  await field.fill('soon')
  await page.getByText('It must be a time from 0s to 1h, such as 30s, 2m or 1h30m.').waitFor()
  const refused = await apply.isDisabled()
  await field.fill('45s')
  await page
    .locator('label')
    .filter({ hasText: /^Evict models when memory runs out$/ })
    .click()
  await page.getByRole('button', { name: 'Use the default of Part of memory for models' }).click()
  await field.focus()
  const known = agent.known.settings?.settings ?? []
  agent.known.settings = {
    start: [],
    settings: known.map((view) => {
      if (view.name === 'drainLimitMs') return { ...view, value: 1_000, from: 'person' as const }
      return view.name === 'applePowerIntervalMs' ? { ...view, value: 5_000 } : view
    }),
  }
  // The settings are asked for anew once the agent is back: the other field tells that they were drawn.
  agent.leave()
  agent.comeBack(sampleSnapshot({ bootId: 'boot-2', services: [ready] }))
  await eventually(async () => (await page.getByLabel('Measure power every', { exact: true }).inputValue()) === '5s')
  const kept = { text: await field.inputValue(), focus: await field.evaluate((one) => one === document.activeElement) }
  await page.getByText('3 changes, not applied').waitFor()
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
  await using window = await show(scenes.settings)
  const { page, agent } = window
  const field = page.getByLabel('Time for requests to finish', { exact: true })
  await field.fill('45s')
  await page.getByRole('tab', { name: 'Activity' }).click()
  await page.getByRole('heading', { name: 'Activity' }).waitFor()
  await page.getByRole('tab', { name: 'Settings' }).click()
  await page.getByText('1 change, not applied').waitFor()
  const kept = await field.inputValue()
  await page.getByLabel('Measure power every', { exact: true }).fill('5s')
  await page.getByRole('button', { name: 'Apply' }).click()
  await eventually(() => agent.asked.length === 1)
  await field.fill('50s')
  agent.answer(done)
  await page.getByText('1 change, not applied').waitFor()
  expect({ kept, written: await field.inputValue() }).toEqual({ kept: '45s', written: '50s' })
})

test('what was set elsewhere is seen at once, and what a person has written stays, with a word at the field', async () => {
  await using window = await show(scenes.settings)
  const { page, agent } = window
  const written = page.getByLabel('Time for requests to finish', { exact: true })
  const untouched = page.getByLabel('Measure power every', { exact: true })
  const known = agent.known.settings?.settings ?? []
  let revision = 1
  const setElsewhere = (values: Readonly<Record<string, number>>) => {
    const settings = known.map((view) => ({ ...view, value: values[view.name] ?? view.value }))
    agent.known.settings = { settings, start: [] }
    agent.show({ ...agent.shown, revision: agent.shown.revision + 1, settingsRevision: ++revision })
  }
  await written.fill('45s')
  setElsewhere({ applePowerIntervalMs: 5_000 })
  await eventually(async () => (await untouched.inputValue()) === '5s')
  const conflict = page.getByText('Meanwhile it was set to 1m elsewhere; Apply sets what you wrote instead.')
  const before = await conflict.count()
  setElsewhere({ applePowerIntervalMs: 5_000, drainLimitMs: 60_000 })
  await conflict.waitFor()
  const kept = await written.inputValue()
  await page.getByRole('button', { name: 'Take that for Time for requests to finish' }).click()
  await page.getByText('No changes').waitFor()
  expect({ before, kept, taken: await written.inputValue(), after: await conflict.count() }).toEqual({
    ...{ before: 0, kept: '45s', taken: '1m', after: 0 },
  })
})

test('the budget is moved with the keyboard, and what it would do is said before it is applied, never that of another value', async () => {
  await using window = await show(scenes.settings)
  const { page, agent } = window
  const slider = page.getByRole('slider', { name: 'Memory for models' })
  const field = page.getByLabel('Part of memory for models', { exact: true })
  const preview = page.getByRole('region', { name: 'Once applied' })
  const before = { preview: await preview.count(), value: await slider.inputValue() }
  const nothing = { modelsBytes: 1e9, starts: [], evicted: [], unfit: [], waits: [] }
  agent.known.evictionPreview = { ...nothing, budgetBytes: 77.8e9, budgetHow: '77.8 GB: 81 %' }
  await slider.focus()
  await page.keyboard.press('ArrowRight')
  await preview.getByText('Budget 77.8 GB: 81 %.').waitFor()
  const moved = await field.inputValue()
  agent.known.evictionPreview = { ...nothing, budgetBytes: 78.7e9, budgetHow: '78.7 GB: 82 %' }
  await page.keyboard.press('ArrowRight')
  const meanwhile = await preview.textContent()
  await preview.getByText('Budget 78.7 GB: 82 %.').waitFor()
  await page.keyboard.press('Home')
  await page.keyboard.press('PageUp')
  const asked = agent.asked.length
  await field.fill('0.5')
  await eventually(async () => (await slider.inputValue()) === '0.5')
  await field.fill('5')
  await preview.waitFor({ state: 'detached' })
  const tooMuch = await page.getByText('% ·').textContent()
  await field.fill('0.5')
  await page.getByRole('button', { name: 'Apply' }).click()
  await eventually(() => agent.asked.length === 1)
  expect({ before, moved, meanwhile, tooMuch, asked, command: agent.asked[0]?.command }).toEqual({
    before: { preview: 0, value: '0.8' },
    moved: '0.81',
    meanwhile: 'Looking at what that would do…',
    tooMuch: '100 % · 96.0 GB (89.4 GiB)',
    asked: 0,
    command: { name: 'updateSettings', settings: { memoryFraction: 0.5 } },
  })
})

test('another address is used at once, and another cluster only after a question', async () => {
  await using window = await show(scenes.settings)
  const { page, agent } = window
  await page.getByRole('button', { name: 'Use 100.64.0.10' }).click()
  await eventually(() => agent.asked.length === 1)
  agent.answer(done)
  await page.getByRole('button', { name: 'Serve prod-eu' }).click()
  const before = agent.asked.length
  const safe = await page.getByRole('button', { name: 'Stay' }).evaluate((one) => one === document.activeElement)
  await page.getByRole('button', { name: 'Yes, serve it' }).click()
  await eventually(() => agent.asked.length === 2)
  const unfit = await page.getByRole('button', { name: 'Use 169.254.7.7' }).count()
  expect({ before, safe, unfit, asked: agent.asked.map(({ command }) => command) }).toEqual({
    ...{ before: 1, safe: true, unfit: 0 },
    asked: [
      { name: 'setHostAddress', address: '100.64.0.10' },
      { name: 'selectContext', context: 'prod-eu', accept: ['production'] },
    ],
  })
})

test('a change that the agent does not take stays in the draft', async () => {
  await using window = await show(scenes.settings)
  const { page, agent } = window
  await page.getByLabel('Time for requests to finish', { exact: true }).fill('45s')
  agent.answers.push({ outcome: 'refused', by: 'agent', message: 'The file cannot be written.' })
  await page.getByRole('button', { name: 'Apply' }).click()
  await page.getByText('The file cannot be written.').waitFor()
  expect(await page.getByLabel('Time for requests to finish', { exact: true }).inputValue()).toBe('45s')
})

test('every view is reached with the keyboard', async () => {
  await using window = await show(scenes.models)
  const { page } = window
  await page.getByRole('tab', { name: 'Models' }).focus()
  await page.keyboard.press('ArrowRight')
  await page.getByRole('heading', { name: 'Activity' }).waitFor()
  await page.keyboard.press('ArrowRight')
  await page.getByRole('heading', { name: 'Settings' }).waitFor()
  await page.keyboard.press('ArrowRight')
  await page.getByRole('option', { name: 'phi-4-mini' }).waitFor()
})

function service(name: string) {
  return { namespace: 'default', name }
}
