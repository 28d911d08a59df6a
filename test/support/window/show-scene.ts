import { viewWords } from '../../../src/renderer/words/services.ts'
import type { FakeAgent } from './fake-agent.ts'
import type { Scene } from './scenes/scene.ts'
import type { OpenWindow, WindowPages, Wishes } from './window-pages.ts'

/** The window in the state of a scene. */
export async function showScene(
  scene: Scene,
  pages: WindowPages,
  wishes: Wishes = {},
): Promise<OpenWindow & { readonly agent: FakeAgent }> {
  const { width = 400, height = 620, textScale = 1 } = scene
  const agent = scene.agent()
  const window = await pages.open({
    agent,
    appState: scene.app,
    size: { width, height },
    wishes: { reducedMotion: 'reduce', ...wishes },
  })
  const { page } = window
  await page.locator('main').waitFor()
  // A string, since nothing here knows of a DOM.
  await page.evaluate(`document.documentElement.style.fontSize = '${textScale * 100}%'`)
  if (scene.view !== undefined) await page.getByRole('tab', { name: viewWords[scene.view] }).click()
  if (scene.page !== undefined) await page.getByRole('option', { name: scene.page, exact: true }).click()
  if (scene.open !== undefined) await page.getByRole('option', { name: scene.open }).click()
  if (scene.add !== undefined) {
    await page.getByRole('button', { name: 'Add a model…', exact: true }).click()
    const source = page.getByLabel('Model', { exact: true })
    if (scene.add !== '') {
      await source.fill(scene.add)
      await source.press('Enter')
    }
  }
  for (const [label, text] of Object.entries(scene.fill ?? {})) await page.getByLabel(label, { exact: true }).fill(text)
  for (const name of scene.choose ?? []) await page.getByRole('radio', { name, exact: true }).click()
  for (const text of scene.unfold ?? []) {
    const folded = page.locator('summary', { hasText: text })
    await folded.first().waitFor()
    for (const one of await folded.all()) await one.click()
  }
  for (const title of scene.tell ?? []) await page.locator(`summary[aria-label="About ${title}"]`).click()
  if (scene.at !== undefined) {
    await page.getByRole('group', { name: scene.at, exact: true }).scrollIntoViewIfNeeded()
  }
  for (const name of scene.press ?? []) await page.getByRole('button', { name, exact: true }).click()
  scene.then?.(agent)
  return { ...window, agent, [Symbol.asyncDispose]: () => window[Symbol.asyncDispose]() }
}
