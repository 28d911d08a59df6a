import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { buildApp, builtWindow } from '../test/support/built-app/build-app.ts'
import { findBrowser, startBrowser } from '../test/support/window/browser.ts'
import { type SceneName, sceneNames, scenes } from '../test/support/window/scenes.ts'
import { serveWindow } from '../test/support/window/serve-window.ts'
import { showScene } from '../test/support/window/show-scene.ts'
import { WindowPages } from '../test/support/window/window-pages.ts'

/**
 * `node tasks/screenshots.ts [scene...]`: every state of the window, light and dark, and one of each view with more contrast and with the
 * colours of a person, into out/screenshots; with `--readme` those that README shows, into assets/screenshots.
 */
const isForReadme = process.argv.includes('--readme')
const target = join(import.meta.dirname, isForReadme ? '../assets/screenshots' : '../out/screenshots')
const names = isForReadme ? ['power'] : process.argv.slice(2)
/** One of each view. */
const viewScenes: ReadonlySet<SceneName> = new Set([
  ...(['services', 'memory', 'work', 'does-not-fit', 'crash', 'add', 'add-fits'] as const),
  ...(['models', 'activity', 'settings', 'settings-memory', 'no-runtime', 'help'] as const),
])
const usual = [
  { ending: 'light', wishes: {} },
  { ending: 'dark', wishes: { colorScheme: 'dark' } },
] as const
const wished = [
  { ending: 'contrast-light', wishes: { contrast: 'more' } },
  { ending: 'contrast-dark', wishes: { colorScheme: 'dark', contrast: 'more' } },
  { ending: 'forced-colours', wishes: { forcedColors: 'active' } },
] as const
const found = findBrowser()
if ('missing' in found) {
  console.error(`No pictures: ${found.missing}`)
  process.exit(1)
}

await buildApp('renderer')
await using served = await serveWindow(builtWindow)
await using browser = await startBrowser(found.path)
const pages = new WindowPages(browser, served.origin, 2)
await mkdir(target, { recursive: true })
for (const name of sceneNames) {
  if (names.length > 0 && !names.includes(name)) continue
  for (const { ending, wishes } of isForReadme || !viewScenes.has(name) ? usual : [...usual, ...wished]) {
    await using shown = await showScene(scenes[name], pages, wishes)
    await shown.page.evaluate('document.fonts.ready')
    await shown.page.screenshot({ path: join(target, `${name}-${ending}.png`), animations: 'disabled' })
  }
}
console.log(`Pictures are in ${target}`)
