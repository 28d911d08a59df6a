import { refuseUnknown } from './electron-types.ts'

/** The app is as one that is installed on a Mac: it has a login item, and its links are the system's. */
export const isInstalled = process.env['ELECTRON_STAND_IN_INSTALLED'] !== undefined

export type LoginItemStatus = 'not-registered' | 'enabled' | 'requires-approval' | 'not-found'

interface Settings {
  readonly openAtLogin?: boolean
  readonly type?: string
}

/** As macOS 26 says before the first registration; earlier ones say `not-registered`. */
let status: LoginItemStatus = 'not-found'
let needsApproval = false

/** What a person allows in System Settings, or takes back. */
export function approve(isAllowed: boolean): void {
  needsApproval = !isAllowed
  if (status === 'enabled' || status === 'requires-approval') status = isAllowed ? 'enabled' : 'requires-approval'
}

export const loginItem = {
  /** There is a status on a Mac alone. */
  get: () => ({ openAtLogin: status === 'enabled', ...(isInstalled && { status }) }),

  set: (settings: Settings): void => {
    refuseUnknown('Settings', settings)
    const { openAtLogin = false, type } = settings
    if (type !== 'mainAppService') throw new Error(`Another service than this app: ${type}`)
    if (!openAtLogin) status = 'not-registered'
    else status = needsApproval ? 'requires-approval' : 'enabled'
  },
}
