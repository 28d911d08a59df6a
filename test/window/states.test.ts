import axe, { type Result, type RunOptions } from 'axe-core'
import type { Page } from 'playwright'
import { expect, test } from 'vitest'
import { type SceneName, sceneNames, scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

/** Draw between them everything that the window can draw; what the others have beside it are other texts. */
const judged: ReadonlySet<SceneName> = new Set([
  ...([
    'services',
    'services-wide',
    'download',
    'starting',
    'evicted',
    'other-machine',
    'hold',
    'does-not-fit',
  ] as const),
  ...(['stop-pending', 'stop-refused', 'delete', 'detail', 'work', 'log-search', 'crash-over', 'large-text'] as const),
  ...(['memory', 'memory-short', 'power', 'power-off', 'paused', 'no-agent', 'stale', 'empty-unfolded'] as const),
  ...(['choose-production', 'no-rights-unfolded', 'no-runtime', 'add-fits', 'add-does-not-fit', 'add-secret'] as const),
  ...(['models', 'models-delete', 'activity', 'settings'] as const),
  ...(['settings-found', 'settings-uninstall', 'help', 'help-report', 'update-downloading'] as const),
])

/** Dark is the same page in other colours. */
const ofColours: RunOptions = { runOnly: ['color-contrast', 'link-in-text-block'] }

/** What is in order is not told, and nobody reads how a violation's element could be selected. */
const onlyViolations: RunOptions = { resultTypes: ['violations'], selectors: false }

test.each(sceneNames)('%s says what is so, to everybody, in light and dark', async (name) => {
  const scene = scenes[name]
  await using window = await show(scene)
  const { page, complaints } = window
  for (const text of scene.says) {
    await page.getByText(text).filter({ visible: true }).first().waitFor({ timeout: 15_000 })
  }
  const light = judged.has(name) ? await violationsIn(page) : []
  await page.emulateMedia({ colorScheme: 'dark' })
  const dark = judged.has(name) ? await violationsIn(page, ofColours) : []
  expect({ light, dark, tooWide: await tooWide(page), complaints }).toEqual({
    light: [],
    dark: [],
    tooWide: [],
    complaints: [],
  })
})

/** Violations of WCAG 2.2, levels A and AA, and of good practice; a rule that axe gave up is one too, since nothing was checked by it. */
async function violationsIn(page: Page, options: RunOptions = {}): Promise<unknown[]> {
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
