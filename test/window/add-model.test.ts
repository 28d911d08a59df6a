import { expect, test } from 'vitest'
import { fitting } from '../support/window/scene-additions.ts'
import { ready } from '../support/window/scene-services.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

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
