import axe, { type Result, type RunOptions } from 'axe-core'
import type { Page } from 'playwright'

/** Dark is the same page in other colours. */
export const ofColours: RunOptions = { runOnly: ['color-contrast', 'link-in-text-block'] }

/** What is in order is not told, and nobody reads how a violation's element could be selected. */
const onlyViolations: RunOptions = { resultTypes: ['violations'], selectors: false }

/** Of WCAG 2.2, levels A and AA, and of what is good practice. */
export async function violationsIn(page: Page, options: RunOptions = {}): Promise<unknown[]> {
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(axe.source)
  // At a log that is scrolled and out of sight axe gives up the contrast of the whole page, and tells it only among what is incomplete.
  await page.evaluate("document.querySelector('[role=log]')?.scrollIntoView()")
  const asked = JSON.stringify({ ...onlyViolations, ...options })
  const found = await page.evaluate<Result[]>(`axe.run(document, ${asked}).then(({ violations }) => violations)`)
  return found.map(({ id, impact, nodes }) => ({ id, impact, where: nodes.map(({ html }) => html) }))
}
