import { expect, test } from 'vitest'

import { eventually } from '../support/eventually.ts'
import { sampleSnapshot } from '../support/sample-snapshot.ts'
import { held } from '../support/window/scene-services.ts'
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
    command: { name: 'deleteModel', service: service('phi-4-mini'), uid: 'ready' },
  },
  { scene: 'evicted', press: ['Bring back'], command: { name: 'bringBack', service: service('deepseek-r1-8b') } },
  { scene: 'draining', press: ['Skip the wait'], command: { name: 'skipDrain', service: service('smollm-360m') } },
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
  await using window = await show(scenes.delete)
  const { page, agent } = window
  await page.getByRole('button', { name: 'Delete phi-4-mini', exact: true }).click()
  await eventually(() => agent.asked.length === 1)
  expect(agent.asked[0]?.command).toMatchObject({ name: 'deleteModel' })
  agent.show(sampleSnapshot({ revision: 2, services: [held] }))
  await page.getByRole('region', { name: 'Overview' }).and(page.locator(':focus')).waitFor()
  agent.answer({ outcome: 'done', message: 'default/phi-4-mini was deleted.' })
  await page.getByRole('status').getByText('default/phi-4-mini was deleted.').waitFor()
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
  await page.getByText('Nothing in the list matches.').waitFor()
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
  await page.getByRole('heading', { name: 'Help' }).waitFor()
  await page.keyboard.press('ArrowRight')
  await page.getByRole('option', { name: 'phi-4-mini' }).waitFor()
})

function service(name: string) {
  return { namespace: 'default', name }
}
