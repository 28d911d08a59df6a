import path from 'node:path'
import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { missingBrowser } from '../support/shell-browser.ts'
import { ShellApp } from '../support/shell-app.ts'
import { skipWhen } from '../support/skip.ts'

/** What drives Electron in the project `electron`, on the stand-in as a program of its own: it is known to work before it is tried on Electron. */
skipWhen(missingBrowser())

const electron = path.join(import.meta.dirname, '../support/electron-stand-in/executable.ts')

test('what drives Electron sees the icon and its menu, chooses, presses keys, and crashes a page', async () => {
  await using app = await ShellApp.start({ preferences: {}, electron })
  const { isTemplate, toolTip } = await app.icon('disconnected', 'kubeconfig')
  const seen = async () => (await app.look()).windows.map(({ isVisible, hasFrame }) => [isVisible, hasFrame])
  const until = (windows: boolean[][]) =>
    eventually(async () => JSON.stringify(await seen()) === JSON.stringify(windows), { what: JSON.stringify(windows) })
  expect([isTemplate, toolTip.split('\n')[1], await seen()]).toEqual([true, 'Serving no model', []])
  expect(await app.menu()).toEqual(expect.arrayContaining(['Open Metalbar', 'Settings…', 'Quit…']))
  await app.choose('Settings…')
  await until([[true, false]])
  expect(await app.ask({ do: 'keys', accelerator: 'Command+W' })).toBe(true)
  await until([[false, false]])
  await app.ask({ do: 'clickIcon' })
  await until([[true, false]])
  await app.ask({ do: 'crashPage' })
  await until([[true, false]])
  await expect(app.ask({ do: 'occlude', isOccluded: true })).rejects.toThrow('Only the stand-in')
  await expect(app.choose('No such entry')).rejects.toThrow('There is no entry No such entry')
  expect(await app.quit()).toBe(0)
})
