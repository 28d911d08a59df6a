import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

test.each([
  { leave: 'Cancel', after: 'Look it up' },
  { leave: 'Services', after: 'Add a model…' },
])('$leave ends the look at a model that is not answered yet', async ({ leave, after }) => {
  await using window = await show(scenes.add)
  const { page, agent } = window
  agent.held.add('fit')
  await page.getByLabel('Model', { exact: true }).fill('hf://org/large')
  await page.getByLabel('Model', { exact: true }).press('Enter')
  await page.getByText('Reading the description of the model…').waitFor()
  await eventually(() => agent.queriesOf('fit').length === 1)
  expect(agent.withdrawn).toEqual([])
  await page.getByRole('button', { name: leave, exact: true }).click()
  await page.getByRole('button', { name: after }).waitFor()
  await eventually(() => agent.withdrawn.includes('fit'))
})
