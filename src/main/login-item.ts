import { app } from 'electron'
import type { LoginItemState, Misplaced } from '../contract/app-bridge.ts'
import { LinkError } from '../contract/client.ts'

const type = 'mainAppService'

/** What runs from the sources is Electron itself, which nobody wants to be opened at login; a disk image will not be there then. */
export function loginItemState(misplaced: Misplaced | undefined): LoginItemState {
  if (!app.isPackaged || misplaced !== undefined) return 'unavailable'
  // There since macOS 13, and on macOS alone.
  const { status } = app.getLoginItemSettings({ type }) as Partial<ReturnType<typeof app.getLoginItemSettings>>
  return status ?? 'unavailable'
}

/** macOS may want to be asked for leave, which the state says afterwards. Throws LinkError. */
export function setLoginItem(isOn: boolean, misplaced: Misplaced | undefined): void {
  if (loginItemState(misplaced) === 'unavailable') {
    throw new LinkError('refused', 'Only an app that is installed can be opened at login.')
  }
  app.setLoginItemSettings({ openAtLogin: isOn, type })
}
