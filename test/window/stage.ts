import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, inject } from 'vitest'
import type {} from '../support/window/global-setup.ts'
import { findBrowser, startBrowser } from '../support/window/browser.ts'
import type { Scene } from '../support/window/scenes.ts'
import { showScene, type Stage } from '../support/window/show-scene.ts'
import { skipWhen } from '../support/skip.ts'

/** One browser for the file's tests, which are skipped where there is none. @returns what shows a scene in it. */
export function useStage() {
  const found = findBrowser()
  skipWhen('missing' in found ? found.missing : undefined)
  let browser: Browser | undefined
  beforeAll(async () => {
    if ('path' in found) browser = await startBrowser(found.path)
  })
  afterAll(() => browser?.close())
  return (scene: Scene, options: Pick<Stage, 'dark'> = {}) => {
    if (browser === undefined) throw new Error('There is no browser.')
    return showScene(scene, { ...options, browser, folder: inject('windowFolder') })
  }
}
