import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { startShellBrowser } from '../support/shell-browser.ts'
import { ShellApp } from '../support/shell-app.ts'

/** What only Electron itself can show, beside the tests of the other files that run on it too. */

test('a click on the icon opens the window below it, where nothing of the app but its bridge is, and Esc hides it', async () => {
  await using browser = await startShellBrowser()
  await using app = await ShellApp.start({ preferences: {} })
  await app.icon('disconnected')
  const before = (await app.look()).windows
  await app.ask({ do: 'clickIcon' })
  const page = await browser.window()
  await eventually(async () => (await app.look()).windows[0]?.isVisible, { what: 'the window to be seen' })
  const inPage = await page.evaluate(
    '[typeof require, typeof process, Object.isFrozen(metalbar), isSecureContext, location.origin]',
  )
  await page.keyboard.press('Escape')
  await eventually(async () => (await app.look()).windows[0]?.isVisible === false, { what: 'the window to be hidden' })
  expect({ before, inPage }).toEqual({
    before: [],
    inPage: ['undefined', 'undefined', true, true, 'app://metalbar'],
  })
})

test('signals that follow one another end it in good order', async () => {
  await using app = await ShellApp.start({ preferences: {} })
  await app.icon('disconnected')
  for (const signal of ['SIGTERM', 'SIGTERM', 'SIGINT', 'SIGINT'] as const) app.signal(signal)
  expect(await app.exited).toBe(0)
})
