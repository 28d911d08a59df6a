import type { Browser } from 'playwright'
import { afterAll, beforeAll, inject } from 'vitest'
import type {} from '../support/window/global-setup.ts'
import { findBrowser, startBrowser } from '../support/window/browser.ts'
import type { Scene } from '../support/window/scenes/scene.ts'
import { showScene } from '../support/window/show-scene.ts'
import { skipWhen } from '../support/skip.ts'

/** One browser for the file's tests, which are skipped where there is none. */
export function useBrowser(): () => Browser {
  const found = findBrowser()
  skipWhen('missing' in found ? found.missing : undefined)
  let browser: Browser | undefined
  beforeAll(async () => {
    if ('path' in found) browser = await startBrowser(found.path)
  })
  afterAll(() => browser?.close())
  return () => {
    if (browser === undefined) throw new Error('There is no browser.')
    return browser
  }
}

/** @returns what shows a scene in the file's browser. */
export function useStage() {
  const browser = useBrowser()
  return (scene: Scene) => showScene(scene, { browser: browser(), folder: inject('windowFolder') })
}
