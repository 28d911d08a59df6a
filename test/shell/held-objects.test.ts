import { beforeEach, expect, test } from 'vitest'
import { app } from '../support/electron-stand-in/app.ts'
import { collectGarbage } from '../support/electron-stand-in/collect-garbage.ts'
import { NativeImage } from '../support/electron-stand-in/native-image.ts'
import { clickNotification, Notification } from '../support/electron-stand-in/notification.ts'
import { Tray, trayNow } from '../support/electron-stand-in/tray.ts'

/** As Electron's, the objects of the stand-in are taken away with what refers to them: what the app does not keep is gone. */

beforeEach(() => {
  if (!app.isReady()) app.becomeReady()
})

test('an icon that nothing refers to any more leaves the menu bar', async () => {
  const show = (x: number) => {
    const tray = new Tray(new NativeImage(undefined))
    tray.moveTo({ x, y: 0, width: 24, height: 25 })
    return tray
  }
  show(700)
  const kept = show(900)
  const before = trayNow()?.getBounds().x
  await collectGarbage()
  expect([before, trayNow()?.getBounds().x, kept.isDestroyed()]).toEqual([700, 900, false])
})

test('a click on a notification that nothing refers to any more is lost', async () => {
  const clicked: string[] = []
  const show = (title: string) => {
    const notification = new Notification({ id: title, title })
    notification.on('click', () => clicked.push(title))
    notification.show()
    return notification
  }
  const kept = show('kept')
  show('lost')
  await collectGarbage()
  for (const title of ['kept', 'lost']) clickNotification(title)
  expect([clicked, kept.options.title]).toEqual([['kept'], 'kept'])
})
