import type { Page } from 'playwright'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { buildWindow } from '../support/window/build-window.ts'
import { otherLanguage } from '../support/window/other-language.ts'
import { sceneNames, scenes } from '../support/window/scenes.ts'
import type { Scene } from '../support/window/scenes/scene.ts'
import { serveWindow } from '../support/window/serve-window.ts'
import { WindowPages } from '../support/window/window-pages.ts'
import { settingPages } from '../../src/renderer/settings-draft.ts'
import { windowViews } from '../../src/contract/app-bridge.ts'
import { useBrowser } from './stage.ts'
import { tooWide } from './violations.ts'

const browser = useBrowser()
const parts = new AsyncDisposableStack()
let pages: WindowPages

beforeAll(async () => {
  const { dir } = parts.use(await temporaryFolder())
  await buildWindow(dir, [otherLanguage])
  const { origin } = parts.use(await serveWindow(dir))
  pages = new WindowPages(browser(), origin)
})
afterAll(() => parts.disposeAsync())

/** Those that are reached without English words; at twice the size nothing else is said. */
const reached = sceneNames.filter((name) => {
  const { fill, choose, unfold, tell, at, press, add, textScale } = scenes[name]
  return [fill, choose, unfold, tell, at, press, add, textScale].every((step) => step === undefined)
})

test.each(reached)('%s: every text is of a catalogue or of the agent, and a longer one fits', async (name) => {
  const scene: Scene = scenes[name]
  const { width = 400, height = 620 } = scene
  const agent = scene.agent()
  await using window = await pages.open({
    agent,
    appState: scene.app,
    size: { width, height },
    wishes: { reducedMotion: 'reduce' },
  })
  const { page, app } = window
  await page.locator('main').waitFor()
  if (scene.view !== undefined) await page.getByRole('tab').nth(windowViews.indexOf(scene.view)).click()
  if (scene.page !== undefined) await page.getByRole('option').nth(settingPages.indexOf(scene.page)).click()
  if (scene.open !== undefined) await page.getByRole('option', { name: scene.open }).click()
  scene.then?.(agent)
  const told = JSON.stringify([agent.told, app.state]).toLowerCase()
  const english = (await textsIn(page)).filter((text) =>
    (text.match(/(?<!-)\b[A-Za-z]{3,}/g) ?? []).some((word) => !told.includes(word.toLowerCase()) && !units.has(word)),
  )
  expect({ english, tooWide: await tooWide(page) }).toEqual({ english: [], tooWide: [] })
})

/** The same in every language that uses these letters. */
const units = new Set(['GiB', 'MiB', 'KiB', 'tok', 'min', 'Metalbar'])

/** What is drawn, and what is said to who cannot see it; commands, files and logs are the same in every language. */
function textsIn(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const attributes = ['aria-label', 'title', 'placeholder', 'alt', 'aria-description', 'aria-valuetext']
    const elements = [...document.querySelectorAll('body *')].filter(
      (one) => one.getClientRects().length > 0 && one.closest('code, pre, [role=log]') === null,
    )
    const texts = elements.flatMap((element) => [
      ...[...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.nodeValue ?? ''),
      ...attributes.map((name) => element.getAttribute(name) ?? ''),
    ])
    return [...new Set(texts)]
  })
}
