import { once } from 'node:events'
import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { findElectron, RealElectron } from '../support/real-electron/real-electron.ts'
import { skipWhen } from '../support/skip.ts'

/** What the other tests here show on the stand-in, as far as it can be seen from outside of Electron itself. */
const found = findElectron()
skipWhen('missing' in found ? found.missing : undefined)
const start = () => RealElectron.start('path' in found ? found.path : '')

test('a click on the icon opens the window below it, where nothing of the app but its bridge is, and Esc hides it', async () => {
  await using electron = await start()
  const before = await electron.windows()
  await electron.clickIcon()
  const page = await electron.page()
  await eventually(async () => (await electron.windows())[0]?.isVisible, { what: 'the window to be seen' })
  const inPage = await page.evaluate(
    '[typeof require, typeof process, Object.isFrozen(metalbar), isSecureContext, location.origin]',
  )
  await page.keyboard.press('Escape')
  await eventually(async () => (await electron.windows())[0]?.isVisible === false, { what: 'the window to be hidden' })
  expect({ before, inPage }).toEqual({
    before: [],
    inPage: ['undefined', 'undefined', true, true, 'app://metalbar'],
  })
})

test('a second click closes the window, whatever it says of its focus', async () => {
  await using electron = await start()
  await electron.clickIcon()
  await eventually(async () => (await electron.windows())[0]?.isVisible, { what: 'the window to be seen' })
  await electron.clickIcon()
  await eventually(async () => (await electron.windows())[0]?.isVisible === false, { what: 'the window to be hidden' })
})

test('the menu is there, and opens the window at Settings', async () => {
  await using electron = await start()
  await electron.openMenu()
  await eventually(async () => (await electron.labels()).includes('Settings…'), { what: 'the menu' })
  await electron.choose('Settings…')
  const page = await electron.page()
  await eventually(() => page.url().includes('#settings?'), { what: 'the settings' })
})

test('signals that follow one another end it in good order', async () => {
  await using electron = await start()
  const child = electron.app.process()
  const exited = once(child, 'exit')
  for (const signal of ['SIGTERM', 'SIGTERM', 'SIGINT', 'SIGINT'] as const) child.kill(signal)
  expect((await exited)[0]).toBe(0)
})
