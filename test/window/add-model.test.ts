import type { Page } from 'playwright'
import { expect, test } from 'vitest'
import { sampleService, sampleSnapshot } from '../support/sample-snapshot.ts'
import { eventually } from '../support/eventually.ts'
import { fitting, misfitting } from '../support/window/scene-additions.ts'
import { ready } from '../support/window/scene-services.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()
const phi = 'hf://microsoft/phi-4/a.gguf'
const qwen = 'hf://Qwen/Qwen3-8B-GGUF/b.gguf'
const done = { outcome: 'done', message: 'default/phi was added.' } as const

test('a model is added without a mouse: chosen, given a smaller context and a name, created, and opened when it is seen', async () => {
  await using window = await show({ ...scenes.add, agent: scenes['add-fits'].agent })
  const { page, agent } = window
  const tabTo = (what: ReturnType<typeof page.getByRole>) =>
    eventually(async () => {
      await page.keyboard.press('Tab')
      return (await what.and(page.locator(':focus')).count()) === 1
    })
  await page.getByRole('heading', { name: 'Add a model' }).and(page.locator(':focus')).waitFor()
  await tabTo(page.getByRole('textbox', { name: 'Model' }))
  await page.keyboard.type('phi-4')
  await tabTo(page.getByRole('option', { name: 'Phi-4 Mini Instruct' }))
  await page.keyboard.press('Enter')
  const slider = page.getByRole('slider', { name: 'Context' })
  await slider.waitFor()
  await tabTo(slider)
  await page.keyboard.press('ArrowLeft')
  await page.getByText('GB with a context of 4,096 tokens').waitFor()
  await page.getByText('KV cache 550 MB').waitFor()
  const spoken = await slider.getAttribute('aria-valuetext')
  const name = page.getByRole('textbox', { name: 'Name', exact: true })
  await tabTo(name)
  const offered = await name.inputValue()
  await name.fill('Phi 4')
  await page.getByText('It must be small letters, digits, dots and dashes, and begin with a letter.').waitFor()
  const refused = await page.getByRole('button', { name: 'Add', exact: true }).isDisabled()
  await name.fill('phi')
  agent.answers.push(done)
  await tabTo(page.getByRole('button', { name: 'Add', exact: true }))
  await page.keyboard.press('Enter')
  await eventually(() => agent.asked.length === 1)
  const application = { namespace: 'default', name: 'phi', source: fitting.source, contextSize: 4_096 }
  expect({ spoken, offered, refused, asked: agent.asked[0]?.command }).toEqual({
    spoken: '4,096 tokens',
    // One of its usual name is there already.
    offered: 'phi-4-mini-2',
    refused: true,
    asked: { name: 'applyModel', application },
  })
  await page.getByText('phi is created and opens here in a moment.').waitFor()
  agent.show(sampleSnapshot({ revision: 2, services: [ready, sampleService({ uid: 'new', name: 'phi' })] }))
  await page.getByRole('heading', { name: 'phi', exact: true }).and(page.locator(':focus')).waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Add a model…' }).click()
  // Nothing is left of what was added before.
  await page.getByRole('option', { name: 'Phi-4 Mini Instruct' }).click()
  await slider.waitFor()
  expect(await page.getByText('default/phi was added.').count()).toBe(0)
})

test('a pasted source is looked up by itself, a file of it is chosen, and a namespace that is not served is said at its field', async () => {
  await using window = await show(scenes.add)
  const { page, agent } = window
  const { known } = scenes['add-files'].agent()
  if (known.fit !== undefined) agent.known.fit = known.fit
  await page.getByLabel('Model', { exact: true }).focus()
  await page.keyboard.insertText('hf://bartowski/Qwen_Qwen3-30B-A3B-GGUF')
  const file = page.getByRole('option', { name: 'Q4_K_M' })
  await file.waitFor()
  agent.known.fit = fitting
  await file.click()
  await page.getByRole('slider', { name: 'Context' }).waitFor()
  expect(await page.getByRole('textbox', { name: 'Name', exact: true }).inputValue()).toBe('qwen-qwen3-30b-a3b-q4-k-m')
  await page.getByRole('textbox', { name: 'Namespace' }).fill('other')
  await page.getByText('This machine serves the namespace default only.').waitFor()
})

test('what is written is kept while the figures change and over a look elsewhere, and nothing is created before Add', async () => {
  await using window = await show(scenes['add-fits'])
  const { page, agent } = window
  const name = page.getByRole('textbox', { name: 'Name', exact: true })
  await name.fill('mine')
  await page.getByRole('slider', { name: 'Context' }).press('ArrowRight')
  for (let revision = 2; revision < 8; revision += 1) {
    agent.known.fit = { ...fitting, totalBytes: fitting.totalBytes + revision * 1e9 }
    const { memory } = agent.shown
    agent.show({
      ...agent.shown,
      revision,
      services: [{ ...ready, revision, message: `Serving since ${revision} s.` }],
      ...(memory && { memory: { ...memory, modelsBytes: memory.modelsBytes + revision * 1e9 } }),
    })
  }
  await page.getByRole('tab', { name: 'Activity' }).click()
  await page.getByRole('heading', { name: 'Activity' }).waitFor()
  await page.getByRole('tab', { name: 'Services' }).click()
  await page.getByText('with a context of 16,384 tokens').waitFor()
  expect({ name: await name.inputValue(), asked: agent.asked }).toEqual({ name: 'mine', asked: [] })
  await page.getByRole('button', { name: 'Start over' }).click()
  expect(await page.getByLabel('Model', { exact: true }).inputValue()).toBe('')
})

test('the YAML is that of what would be created, and is there before anything is', async () => {
  await using window = await show(scenes['add-fits'])
  const { page } = window
  await page.getByRole('slider', { name: 'Context' }).press('ArrowLeft')
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('phi')
  await page.getByText('As YAML').click()
  await page.getByRole('button', { name: 'Copy YAML' }).click()
  const copied = await page.evaluate(() => navigator.clipboard.readText())
  expect(copied.split('\n')).toEqual(
    expect.arrayContaining(['kind: Model', `  source: "${fitting.source}"`, '  modelRef: phi', '  contextSize: 4096']),
  )
})

test('a model that nobody uses is served from the list of the stored ones', async () => {
  await using window = await show({ agent: scenes['add-fits'].agent, view: 'models' })
  const { page } = window
  await page.getByRole('button', { name: 'Serve smollm-360m' }).click()
  await page.getByRole('slider', { name: 'Context' }).waitFor()
  expect(await page.getByRole('textbox', { name: 'Name', exact: true }).inputValue()).toBe('smollm-360m')
})

/** Looks another source up, as a person does who writes over the field. */
async function choose(page: Page, source: string) {
  const field = page.getByLabel('Model', { exact: true })
  await field.fill('')
  await field.fill(source)
  await field.press('Enter')
  await page.getByRole('slider', { name: 'Context' }).waitFor()
}

test('another choice has nothing of the one before: it can be added, and is not left when the one before is seen', async () => {
  await using window = await show({ ...scenes.add, agent: scenes['add-fits'].agent })
  const { page, agent } = window
  const add = page.getByRole('button', { name: 'Add', exact: true })
  const name = page.getByRole('textbox', { name: 'Name', exact: true })
  await choose(page, phi)
  await name.fill('first')
  agent.answers.push({ outcome: 'done', message: 'default/first was added.' })
  await add.click()
  await page.getByText('first is created and opens here').waitFor()
  await choose(page, qwen)
  await name.fill('second')
  const left = await page.getByText(/first is (created|added)/).count()
  agent.show({ ...agent.shown, revision: 2, services: [ready, sampleService({ uid: 'new', name: 'first' })] })
  agent.answers.push({ outcome: 'done', message: 'default/second was added.' })
  await add.click()
  await page.getByText('second is created and opens here').waitFor()
  expect({ left, written: await name.inputValue() }).toEqual({ left: 0, written: 'second' })
})

test('what is created after another was chosen opens nothing', async () => {
  await using window = await show({ ...scenes.add, agent: scenes['add-fits'].agent })
  const { page, agent } = window
  await choose(page, phi)
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('first')
  await page.getByRole('button', { name: 'Add', exact: true }).click()
  await eventually(() => agent.asked.length === 1)
  await choose(page, qwen)
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('second')
  agent.answer(done)
  agent.show({ ...agent.shown, revision: 2, services: [ready, sampleService({ uid: 'new', name: 'first' })] })
  await page.getByRole('button', { name: 'Add', exact: true }).click()
  await eventually(() => agent.asked.length === 2)
  expect(await page.getByRole('textbox', { name: 'Name', exact: true }).inputValue()).toBe('second')
})

test('a refusal of one model is not told of another', async () => {
  await using window = await show(scenes['add-refused'])
  const { page } = window
  const refusal = page.getByText('Nothing was created.')
  await refusal.waitFor()
  await choose(page, qwen)
  expect(await refusal.count()).toBe(0)
})

test('the chosen file is asked about, and then with the context that a person moves to', async () => {
  await using window = await show(scenes.add)
  const { page, agent } = window
  const { known } = scenes['add-files'].agent()
  const files = known.fit
  if (files?.kind !== 'choose') throw new Error('This scene has files to choose from.')
  agent.replies.fit = ({ source }) => (files.files.some((file) => file.source === source) ? fitting : files)
  await page.getByLabel('Model', { exact: true }).focus()
  await page.keyboard.insertText('hf://bartowski/Qwen_Qwen3-30B-A3B-GGUF')
  await page.getByRole('option', { name: 'Q4_K_M' }).click()
  await page.getByRole('slider', { name: 'Context' }).press('ArrowLeft')
  await eventually(() => agent.queriesOf('fit').length === 3)
  const file = files.files.find(({ quantization }) => quantization === 'Q4_K_M')
  const asked = { name: 'fit', namespace: 'default' }
  expect(agent.queriesOf('fit')).toEqual([
    { ...asked, source: 'hf://bartowski/Qwen_Qwen3-30B-A3B-GGUF' },
    { ...asked, source: file?.source },
    { ...asked, source: file?.source, contextSize: 4_096 },
  ])
})

test('a context between those of the slider has no figures of another one until the agent has answered', async () => {
  await using window = await show({ ...scenes['add-does-not-fit'], add: '' })
  const { page, agent } = window
  const change = { kind: 'change', sentence: 'Use a context of 11264 tokens', change: { contextSize: 11_264 } } as const
  const larger = {
    ...misfitting,
    contextSize: 32_768,
    totalBytes: 54.2e9,
    ways: [change],
    message: 'It is far too large.',
  }
  const smaller = {
    ...misfitting,
    contextSize: 11_264,
    totalBytes: 47.1e9,
    ways: [],
    message: 'It is nearly small enough.',
  }
  agent.replies.fit = ({ contextSize }) => (contextSize === 11_264 ? smaller : larger)
  await choose(page, qwen)
  await page.getByText('54.2 GB with a context of 32,768 tokens').waitFor()
  agent.held.add('fit')
  await page.getByRole('button', { name: 'Use 11,264 tokens' }).click()
  await page.getByText('Checking what it needs with a context of 11,264 tokens…').waitFor()
  const old = await page.getByText(/54\.2 GB|far too large|8,?192 tokens/).count()
  const slider = await page.getByRole('slider', { name: 'Context' }).getAttribute('aria-valuetext')
  await eventually(() => agent.queriesOf('fit').some(({ contextSize }) => contextSize === 11_264))
  agent.release('fit')
  await page.getByText('47.1 GB with a context of 11,264 tokens').waitFor()
  await page.getByText('It is nearly small enough.').waitFor()
  expect({ old, slider }).toEqual({ old: 0, slider: '11,264 tokens' })
})

test('what is written for one model is discarded for another of the store only after a question', async () => {
  await using window = await show({ ...scenes.add, agent: scenes['add-fits'].agent })
  const { page } = window
  const name = page.getByRole('textbox', { name: 'Name', exact: true })
  await choose(page, phi)
  await name.fill('mine')
  await page.getByRole('tab', { name: 'Models' }).click()
  await page.getByRole('button', { name: 'Serve smollm-360m' }).click()
  await page.getByText(`Discard the draft for ${phi} and serve this model?`).waitFor()
  await page.getByRole('button', { name: 'Keep what I wrote' }).and(page.locator(':focus')).waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Serve smollm-360m' }).and(page.locator(':focus')).waitFor()
  await page.getByRole('tab', { name: 'Services' }).click()
  const kept = await name.inputValue()
  await page.getByRole('tab', { name: 'Models' }).click()
  await page.getByRole('button', { name: 'Serve smollm-360m' }).click()
  await page.getByRole('button', { name: 'Discard it and serve this' }).click()
  await page.getByRole('slider', { name: 'Context' }).waitFor()
  const offered = await name.inputValue()
  await choose(page, qwen)
  expect({ kept, offered, ofAnother: await name.inputValue() }).toEqual({
    kept: 'mine',
    offered: 'smollm-360m',
    ofAnother: 'b',
  })
})
