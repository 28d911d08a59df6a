import type { Browser } from 'playwright'
import { beforeAll, inject } from 'vitest'
import type {} from '../support/window/global-setup.ts'
import { findBrowser } from '../support/window/browser.ts'
import type { Scene } from '../support/window/scenes/scene.ts'
import { showScene } from '../support/window/show-scene.ts'
import { WindowPages } from '../support/window/window-pages.ts'
import { workerBrowser } from '../support/window/worker-browser.ts'
import { skipWhen } from '../support/skip.ts'

/** The worker's browser for the file's tests, which are skipped where there is none. */
export function useBrowser(): () => Browser {
  const found = findBrowser()
  skipWhen('missing' in found ? found.missing : undefined)
  let browser: Browser | undefined
  beforeAll(async () => {
    if ('path' in found) browser = await workerBrowser(found.path)
  })
  return () => {
    if (browser === undefined) throw new Error('There is no browser.')
    return browser
  }
}

const pages = new WeakMap<Browser, WindowPages>()

/** @returns what opens windows in the worker's browser. */
export function usePages(): () => WindowPages {
  const current = useBrowser()
  return () => {
    const browser = current()
    const its = pages.get(browser) ?? new WindowPages(browser, inject('windowOrigin'))
    pages.set(browser, its)
    return its
  }
}

/** @returns what shows a scene in the worker's browser. */
export function useStage() {
  const current = usePages()
  return (scene: Scene) => showScene(scene, current())
}
