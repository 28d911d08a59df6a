import type { Page } from 'playwright'
import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { type SceneName, scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

/** Pictures show more of it. */
const popover = 620

const atTwice: readonly SceneName[] = [
  ...(['large-text', 'large-text-detail', 'large-text-models', 'large-text-activity', 'large-text-settings'] as const),
  ...(['large-text-first-run', 'add-large-text'] as const),
]

test.each(atTwice)(
  '%s: all of it is reached by one scroll, the header gives way to it and the tabs stay',
  async (name) => {
    await using window = await show({ ...scenes[name], height: popover })
    const { page } = window
    // Answers that come meanwhile make it longer.
    await eventually(async () => {
      await page.evaluate(toTheEnd)
      const { header, main, tabs } = await boxes(page)
      return main.bottom <= tabs.top + 1 && header.bottom <= 0
    })
    const { tabs } = await boxes(page)
    expect({
      scrollers: await page.evaluate(scrollers),
      areTabsThere: tabs.bottom <= popover && tabs.top > 400,
    }).toEqual({ scrollers: 1, areTabsThere: true })
  },
)

test('at the usual size the header and the tabs stay, and each part scrolls by itself', async () => {
  await using window = await show(scenes.services)
  const { page } = window
  const before = await boxes(page)
  await page.getByRole('option').last().scrollIntoViewIfNeeded()
  expect(await boxes(page)).toEqual(before)
})

test('another view begins at its beginning, and what has the focus is not below the tabs', async () => {
  await using window = await show({ ...scenes['large-text-settings'], height: popover })
  const { page } = window
  await eventually(() => page.evaluate(toTheEnd))
  await page.getByRole('tab', { name: 'Models' }).click()
  await page.getByRole('heading', { name: 'Models', exact: true }).waitFor()
  const header = (await boxes(page)).header.top
  await page.getByRole('tab', { name: 'Services' }).click()
  const last = page.getByRole('button', { name: 'Resync' })
  await last.focus()
  const { bottom } = await last.evaluate((element) => element.getBoundingClientRect().toJSON() as DOMRect)
  expect([header >= 0, bottom <= (await boxes(page)).tabs.top]).toEqual([true, true])
})

interface Box {
  readonly top: number
  readonly bottom: number
}

function boxes(page: Page): Promise<{ readonly header: Box; readonly main: Box; readonly tabs: Box }> {
  return page.evaluate(() => {
    const of = (selector: string) => {
      const { top = 0, bottom = 0 } = document.querySelector(selector)?.getBoundingClientRect() ?? {}
      return { top: Math.round(top), bottom: Math.round(bottom) }
    }
    return { header: of('header'), main: of('main'), tabs: of('nav') }
  })
}

/** Whether it is there. */
function toTheEnd(): boolean {
  const box = document.querySelector('header')?.parentElement
  if (!box) return false
  box.scrollTop = box.scrollHeight
  return box.scrollTop + box.clientHeight >= box.scrollHeight - 1
}

/** How many parts scroll up and down, but for texts that are read apart. */
function scrollers(): number {
  return [...document.querySelectorAll('#root *')].filter(
    (element) =>
      element.closest('pre, [role="log"], [role="listbox"]') === null &&
      element.scrollHeight > element.clientHeight + 1 &&
      ['auto', 'scroll'].includes(getComputedStyle(element).overflowY),
  ).length
}
