import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

test('the app is told while settings are written and not applied, so that it keeps the hidden page', async () => {
  await using window = await show(scenes['settings-runtimes'])
  const { page, kept } = window
  await page.getByText('version 6500 (0e6fdc9a) · /opt/homebrew/bin/llama-server').waitFor()
  await page.getByLabel('Time for requests to finish', { exact: true }).fill('45s')
  await eventually(() => kept.length === 1)
  await page.getByRole('button', { name: 'Revert' }).click()
  await eventually(() => kept.length === 2)
  expect(kept).toEqual([true, false])
})

test('the app is told while a model is written that is not created', async () => {
  await using window = await show(scenes.add)
  const { page, kept } = window
  await page.getByLabel('Model', { exact: true }).fill('hf://org')
  await eventually(() => kept.length === 1)
  await page.getByLabel('Model', { exact: true }).fill('')
  await eventually(() => kept.length === 2)
  expect(kept).toEqual([true, false])
})
