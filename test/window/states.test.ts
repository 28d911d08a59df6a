import type { Page } from 'playwright'
import { expect, test } from 'vitest'
import { sceneNames, scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'
import { ofColours, violationsIn } from './violations.ts'

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

/** What a person would have to scroll sideways for, or sees cut off without a mark; code and logs have a scroll bar of their own. */
function tooWide(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const cutOff = (element: Element) =>
      element.scrollWidth > element.clientWidth + 1 &&
      // Text for screen readers only is one pixel wide.
      element.clientWidth > 1 &&
      getComputedStyle(element).textOverflow !== 'ellipsis'
    return [...document.querySelectorAll('body *')]
      .filter((element) => element.getClientRects().length > 0 && element.closest('pre, svg, [role="log"]') === null)
      .filter((element) => element.getBoundingClientRect().right > window.innerWidth + 1 || cutOff(element))
      .map((element) => element.outerHTML.slice(0, 200))
  })
}
