import type { Page } from 'playwright'
import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { type SceneName, scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'
import { missedByArrows, tabStops, walk } from './tab-stops.ts'

const show = useStage()

/** One of each view, with as much in it as it can have, and its last words. */
const views = {
  services: 'On another machine',
  'does-not-fit': 'Quit Xcode',
  crash: 'error loading model',
  'detail-news': 'kubectl get events lists all',
  work: 'llama-server --model',
  'add-files': 'bf16 · 2 parts',
  'add-does-not-fit': 'Add and wait for memory',
  models: 'architecture not reported',
  activity: 'Show more',
  settings: 'Check for updates once a day',
  'settings-runtimes': 'Path of llama-server',
  'settings-about': 'Copy line for Model store',
  'no-runtime': 'brew install llama.cpp',
  'choose-context': 'Use prod-eu',
} satisfies { [N in SceneName]?: string }

test.each(Object.entries(views) as [SceneName, string][])(
  'in %s Tab and arrows come to every control, each shows that it has the focus, and none keeps it',
  async (name, words) => {
    await using window = await show(scenes[name])
    const { page } = window
    await page.getByText(words).first().waitFor()
    const stops = await tabStops(page)
    const forth = await walk(page, 'Tab', stops.length)
    const back = await walk(page, 'Shift+Tab', stops.length)
    expect({
      isMany: stops.length > 5,
      unreached: stops.filter((_, at) => !forth.some((visit) => visit.stop === at)),
      unreachedBack: stops.filter((_, at) => !back.some((visit) => visit.stop === at)),
      unseen: forth.filter(({ isSeen }) => !isSeen).map(({ what }) => what),
      leaves: [forth.at(-1)?.stop, back.at(-1)?.stop],
      missedByArrows: await missedByArrows(page),
    }).toEqual({
      ...{ isMany: true, unreached: [], unreachedBack: [], unseen: [] },
      ...{ leaves: [undefined, undefined], missedByArrows: [] },
    })
  },
)

test.each([
  { scene: 'detail', left: 'Stop' },
  { scene: 'add', left: 'Look it up' },
] as const)(
  'Escape in $scene goes back to the list, and only the next one is for the window',
  async ({ scene, left }) => {
    await using window = await show(scenes[scene])
    const { page } = window
    const button = page.getByRole('button', { name: left, exact: true })
    await button.waitFor()
    await eventually(() => page.evaluate('document.querySelector("main h2:focus") !== null'))
    await countEscapes(page)
    await page.keyboard.press('Escape')
    await button.waitFor({ state: 'detached' })
    const first = await page.evaluate('window.escapes')
    await page.keyboard.press('Escape')
    expect([first, await page.evaluate('window.escapes')]).toEqual([0, 1])
  },
)

test.each(['models', 'activity', 'settings', 'services', 'no-runtime'] as const)(
  'Escape in %s, where nothing is open, is for the window',
  async (scene) => {
    await using window = await show(scenes[scene])
    const { page } = window
    await page.getByRole('tab').first().waitFor()
    await countEscapes(page)
    await page.keyboard.press('Tab')
    await page.keyboard.press('Escape')
    expect(await page.evaluate('window.escapes')).toBe(1)
  },
)

test('Escape ends the search of the log, and nothing else', async () => {
  await using window = await show(scenes['log-search'])
  const { page } = window
  const field = page.getByLabel('Search the log')
  await countEscapes(page)
  await field.press('Escape')
  await page.getByRole('button', { name: 'Stop', exact: true }).waitFor()
  expect([await field.inputValue(), await page.evaluate('window.escapes')]).toEqual(['', 0])
})

/** As the preload script of the app hears them. */
const countEscapes = (page: Page) =>
  page.evaluate(`{
    window.escapes = 0
    addEventListener('keydown', ({ key, defaultPrevented }) => {
      if (key === 'Escape' && !defaultPrevented) window.escapes += 1
    })
  }`)
