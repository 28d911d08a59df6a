import { app } from 'electron'
import type { LoginItemState } from '../contract/app-bridge.ts'
import { LinkError } from '../contract/client.ts'

const type = 'mainAppService'

/** What runs from the sources is Electron itself, which nobody wants to be opened at login. */
export function loginItemState(): LoginItemState {
  if (!app.isPackaged) return 'unavailable'
  // There since macOS 13, and on macOS alone.
  const { status } = app.getLoginItemSettings({ type }) as Partial<ReturnType<typeof app.getLoginItemSettings>>
  return status ?? 'unavailable'
}

/** macOS may want to be asked for leave, which the state says afterwards. Throws LinkError. */
export function setLoginItem(isOn: boolean): void {
  if (loginItemState() === 'unavailable') {
    throw new LinkError('refused', 'Only an app that is installed can be opened at login.')
  }
  app.setLoginItemSettings({ openAtLogin: isOn, type })
}
