import { expect, test } from 'vitest'
import { type SceneName, sceneNames, scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'
import { ofColours, tooWide, violationsIn } from './violations.ts'

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
