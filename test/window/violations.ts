import axe, { type Result, type RunOptions } from 'axe-core'
import type { Page } from 'playwright'

/** Dark is the same page in other colours. */
export const ofColours: RunOptions = { runOnly: ['color-contrast', 'link-in-text-block'] }

/** What is in order is not told, and nobody reads how a violation's element could be selected. */
const onlyViolations: RunOptions = { resultTypes: ['violations'], selectors: false }

/** Violations of WCAG 2.2, levels A and AA, and of good practice; a rule that axe gave up is one too, since nothing was checked by it. */
export async function violationsIn(page: Page, options: RunOptions = {}): Promise<unknown[]> {
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(axe.source)
  // At a log that is scrolled and out of sight axe gives up the contrast of the whole page. React Aria's announcer has logs outside of main.
  await page.evaluate("document.querySelector('main [role=log]')?.scrollIntoView()")
  const asked = JSON.stringify({ ...onlyViolations, ...options })
  const { violations, givenUp } = await page.evaluate<Record<'violations' | 'givenUp', readonly Result[]>>(
    `axe.run(document, ${asked}).then(({ violations, incomplete }) => ({ violations, givenUp: incomplete.filter(({ error }) => error) }))`,
  )
  return [...violations, ...givenUp].map(({ id, impact, nodes }) => ({
    id,
    impact,
    where: nodes.map(({ html }) => html),
  }))
}

/** What a person would have to scroll sideways for, or sees cut off without a mark; code and logs have a scroll bar of their own. */
export function tooWide(page: Page): Promise<string[]> {
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
