import { expect, test } from 'vitest'
import { sceneNames, scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'
import { ofColours, tooWide, violationsIn } from './violations.ts'

const show = useStage()

const everyScene = sceneNames.map((name) => ({ name, scene: scenes[name] }))

test.each(everyScene)('$name says what is so, to everybody, in light and dark', async ({ scene }) => {
  await using window = await show(scene)
  const { page, complaints } = window
  for (const text of scene.says) {
    await page.getByText(text).filter({ visible: true }).first().waitFor({ timeout: 15_000 })
  }
  const light = await violationsIn(page)
  await page.emulateMedia({ colorScheme: 'dark' })
  const found = { light, dark: await violationsIn(page, ofColours), tooWide: await tooWide(page), complaints }
  expect(found).toEqual({ light: [], dark: [], tooWide: [], complaints: [] })
})
