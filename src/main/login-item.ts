import { app } from 'electron'
import type { LoginItemState, Misplaced } from '../contract/app-bridge.ts'
import { LinkError } from '../contract/client.ts'

const type = 'mainAppService'

/** What runs from the sources is Electron itself, which nobody wants to be opened at login; a disk image will not be there then. */
export function loginItemState(misplaced: Misplaced | undefined): LoginItemState {
  if (!app.isPackaged || misplaced !== undefined) return 'unavailable'
  const status = systemStatus()
  // macOS 26 says so of an app that was never registered, as of one that it cannot find.
  return status === 'not-found' ? 'not-registered' : (status ?? 'unavailable')
}

/** There since macOS 13, and on macOS alone. */
const systemStatus = () =>
  (app.getLoginItemSettings({ type }) as Partial<ReturnType<typeof app.getLoginItemSettings>>).status

/** macOS may want to be asked for leave, which the state says afterwards. Throws LinkError. */
export function setLoginItem(isOn: boolean, misplaced: Misplaced | undefined): void {
  if (loginItemState(misplaced) === 'unavailable') {
    throw new LinkError('refused', 'Only an app that is installed can be opened at login.')
  }
  app.setLoginItemSettings({ openAtLogin: isOn, type })
  if (isOn && systemStatus() === 'not-found') {
    throw new LinkError('refused', 'macOS does not find the app: move it into Applications, and switch this on again.')
  }
}
