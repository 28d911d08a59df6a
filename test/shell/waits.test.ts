import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createAgentView } from '../../src/main/agent/agent-view.ts'
import { catchLinks, followSleep, followSupply, holdAwake, refuseAppNap } from '../../src/main/system/macos.ts'
import type { LinkTarget } from '../../src/main/window/show-target.ts'
import { securePages } from '../../src/main/window/app-scheme.ts'
import { defaultPreferences } from '../../src/main/preferences.ts'
import { showTray, tellHiddenIconOnce } from '../../src/main/tray/tray.ts'
import { app } from '../support/electron-stand-in/app.ts'
import { BrowserWindow } from '../support/electron-stand-in/browser-window.ts'
import { press, question } from '../support/electron-stand-in/dialog.ts'
import { systemPreferences } from '../support/electron-stand-in/system-preferences.ts'
import { clickIcon, iconClick } from '../support/electron-stand-in/person.ts'
import { PreventableEvent } from '../support/electron-stand-in/preventable-event.ts'
import { announce } from '../support/electron-stand-in/power-monitor.ts'
import { newestTray, trayNow } from '../support/electron-stand-in/tray.ts'
import { silentLog } from '../support/silent-log.ts'

/** The parts themselves: only the stand-in can be had inside of the test. */
vi.mock('electron', () => import('../support/electron-stand-in/electron.ts'))

beforeEach(() => {
  if (!app.isReady()) app.becomeReady()
  app.on('window-all-closed', () => undefined)
})
afterEach(() => void app.removeAllListeners())

test('the menu opens, again and again, where what brings it up to date fails', async () => {
  const opened: boolean[] = []
  const fails = [
    () => Promise.reject(new Error('no list')),
    () => {
      throw new Error('no state of the login item')
    },
  ]
  const view = createAgentView('linux')
  view.subscribe((now, before) => {
    if (now.isMenuOpen !== before.isMenuOpen) opened.push(now.isMenuOpen)
  })
  showTray({
    imageFolder: '/nowhere',
    view,
    log: silentLog,
    onPress: () => undefined,
    onClick: () => undefined,
    beforeMenu: () => fails[opened.length % 4 === 1 ? 1 : 0]?.() ?? Promise.resolve(),
    onAction: () => undefined,
  })
  const tray = trayNow()
  for (let time = 0; time < 4; time += 1) {
    const shown = new Promise((resolve) => tray?.once('menu-shown', resolve))
    tray?.emit('right-click', {}, tray.getBounds())
    await shown
    tray?.menu?.emit('menu-will-close')
  }
  expect(opened).toEqual([true, false, true, false, true, false, true, false])
})

test('each press and click on the icon is told, the second of two quick ones too, with the place that was clicked', async () => {
  const told: unknown[] = []
  showTray({
    imageFolder: '/nowhere',
    view: createAgentView('linux'),
    log: silentLog,
    onPress: () => told.push('pressed'),
    onClick: (bounds) => told.push(bounds),
    beforeMenu: () => Promise.resolve(),
    onAction: () => undefined,
  })
  const tray = newestTray()
  tray?.moveTo({ x: 700, y: 0, width: 24, height: 25 })
  if (tray) await clickIcon(tray, iconClick.parse({ isDouble: true, blur: 'never' }))
  const place = { x: 700, y: 0, width: 24, height: 25 }
  expect(told).toEqual(['pressed', place, 'pressed', place])
})

test('a plug that is pulled or put in is followed', () => {
  const onSupply = vi.fn(() => Promise.resolve())
  followSupply({ log: silentLog, onSupply })
  for (const event of ['on-battery', 'on-ac'] as const) announce(event)
  expect(onSupply).toHaveBeenCalledTimes(2)
})

test('a sleep is told before it, and a wake to what shows news before the agent', () => {
  const told: string[] = []
  followSleep({
    log: silentLog,
    onSleep: (isAsleep) => Promise.resolve(void told.push(isAsleep ? 'sleeps' : 'woke')),
    onWoke: () => told.push('news'),
  })
  for (const event of ['suspend', 'resume'] as const) announce(event)
  expect(told).toEqual(['sleeps', 'news', 'woke'])
})

test('that the icon is hidden is told when the preferences are there, and remembered', async () => {
  const view = createAgentView('linux')
  const prefer = vi.fn(() => Promise.resolve())
  tellHiddenIconOnce({ view, log: silentLog, prefer })
  const before = question()
  view.setState({ preferences: { ...defaultPreferences, hiddenIconTold: false } })
  await vi.waitFor(() => expect(question()).toBeDefined())
  press('OK', false)
  await vi.waitFor(() => expect(prefer).toHaveBeenCalledWith({ hiddenIconTold: true }))
  expect(before).toBeUndefined()
})

test('of the links that came before the app was ready the newest is followed', () => {
  const follow = catchLinks()
  for (const link of ['metalbar://settings', 'metalbar://models']) app.openLink(link)
  const seen: LinkTarget[] = []
  follow({ log: silentLog, isPlaced: Promise.resolve(true), onLink: (target) => seen.push(target) })
  expect(seen).toEqual([{ kind: 'view', view: 'models' }])
})

test.for(['will-redirect', 'will-attach-webview'])('a page is led nowhere by %s', (event) => {
  securePages()
  const { webContents } = new BrowserWindow({ width: 400, height: 300, show: false, webPreferences: { preload: '' } })
  const asked = new PreventableEvent()
  webContents.emit(event, asked)
  expect(asked.defaultPrevented).toBe(true)
})

test('each hold that keeps the machine awake is let go by itself', () => {
  const [first, second] = [holdAwake(() => undefined), holdAwake(() => undefined)]
  const begun = [first.isHeld, second.isHeld]
  first.release()
  expect([begun, first.isHeld, second.isHeld]).toEqual([[true, true], false, true])
  second.release()
})

test('the app is not slowed while nobody looks at it', () => {
  refuseAppNap()
  expect(systemPreferences.getUserDefault('NSAppSleepDisabled', 'boolean')).toBe(true)
})
