import type { Page } from 'playwright'
import { eventually } from '../support/eventually.ts'

/** Names of all that the Tab key has to come to, in the order of the page, once there are no more of them than a moment ago. */
export async function tabStops(page: Page): Promise<string[]> {
  let before = -1
  return eventually(async () => {
    const names = await page.evaluate<string[]>(marked)
    const isCalm = names.length === before
    before = names.length
    return isCalm && names
  })
}

/** Where the focus was after a press of the key. */
interface Visit {
  /** Number of the stop; undefined = it has left the page. */
  readonly stop?: number
  readonly what: string
  /** A line is drawn around it, or around what it stands for. */
  readonly isSeen: boolean
}

/** Presses the key until the focus leaves the page, or has had time to come round twice. */
export async function walk(page: Page, key: 'Tab' | 'Shift+Tab', stops: number): Promise<Visit[]> {
  const visits: Visit[] = []
  do {
    await page.keyboard.press(key)
    visits.push(await page.evaluate<Visit>(visited))
  } while (visits.at(-1)?.stop !== undefined && visits.length < 2 * stops + 2)
  return visits
}

/** What is one stop: within it the arrow keys go on. */
const composite = '[role=listbox], [role=radiogroup], [role=tablist], [role=toolbar]'

/** In the page: numbers what can have the focus, is seen and works. */
const marked = `(() => {
  const all = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')]
  const isStop = (one) => one.tabIndex >= 0 && !one.matches(':disabled, [aria-disabled=true]') && one.checkVisibility()
  const stops = [...new Set(all.filter(isStop).map((one) => one.closest('${composite}') ?? one))]
  stops.forEach((one, at) => (one.dataset.stop = String(at)))
  // The first press of the key comes to the first of them.
  document.body.tabIndex = -1
  document.body.focus()
  return stops.map((one) => one.outerHTML.slice(0, 160))
})()`

/** In the page. */
const visited = `(() => {
  const element = document.activeElement
  if (element === null || element === document.body) return { what: 'outside', isSeen: true }
  // React Aria hides the input of a switch or a slider, and draws what stands for it around or beside it.
  const near = [element, element.parentElement, element.parentElement?.parentElement, element.nextElementSibling]
  const isLined = (one) => {
    const { outlineStyle, outlineWidth } = getComputedStyle(one)
    return outlineStyle !== 'none' && outlineWidth !== '0px'
  }
  return {
    stop: Number(element.closest('[data-stop]')?.dataset.stop ?? -1),
    what: element.outerHTML.slice(0, 160),
    isSeen: near.some((one) => one && isLined(one)),
  }
})()`

/** Of each group but the tabs, those that the arrow keys do not come to from the first. */
export async function missedByArrows(page: Page): Promise<string[]> {
  const missed: string[] = []
  for (const group of await page.locator('[role=listbox], [role=radiogroup], [role=toolbar]').all()) {
    if (!(await group.isVisible())) continue
    const items = await group.locator('[role=option], [role=radio], button').all()
    await items[0]?.focus()
    const isColumn = (await group.getAttribute('data-layout')) === 'stack'
    const key = isColumn ? 'ArrowDown' : 'ArrowRight'
    for (const item of items.slice(1)) {
      await page.keyboard.press(key)
      const isThere = await item.evaluate((one) => one === document.activeElement)
      if (!isThere) missed.push((await item.textContent()) ?? '')
    }
  }
  return missed
}
