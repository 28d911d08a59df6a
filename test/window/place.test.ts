import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

test('Other… of the menu leads to the field where an address is written, on whatever view the window is', async () => {
  await using window = await show(scenes.services)
  const { page } = window
  const isThere = () => page.evaluate("document.activeElement?.id === 'hostAddress'")
  await page.evaluate("location.hash = '#settings/hostAddress'")
  const inSettings = await eventually(isThere)
  await page.evaluate("location.hash = '#models'")
  await page.getByRole('heading', { name: 'Models' }).first().waitFor()
  await page.evaluate("location.hash = '#settings/hostAddress'")
  expect([inSettings, await eventually(isThere)]).toEqual([true, true])
})
