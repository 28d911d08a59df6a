import { BrowserWindow, nativeTheme, type BrowserWindowConstructorOptions } from 'electron'
import { appUrl } from './app-scheme.ts'
import { fragmentOf, type WindowPlace } from './window-place.ts'

/** `popover`: under the icon, until a person looks elsewhere. `window`: as any other, with an icon in the Dock. */
export type Form = 'popover' | 'window'

export const windowSize = { width: 400, height: 620 }

/** Nothing is seen of it before it is painted. */
export function newWindow(form: Form, preload: string): BrowserWindow {
  const window = new BrowserWindow({
    ...windowSize,
    title: 'Metalbar',
    show: false,
    backgroundColor: ground(),
    ...forms[form],
    webPreferences: { preload, sandbox: true, contextIsolation: true, nodeIntegration: false, spellcheck: false },
  })
  // Else Electron decides here whether the app has an icon in the Dock, which is for DockIcon to do.
  const spaces = { visibleOnFullScreen: true, skipTransformProcessType: true }
  if (form === 'popover') window.setVisibleOnAllWorkspaces(true, spaces)
  return window
}

/** The page's own, so that nothing flashes before it is painted. */
export const ground = (): string => (nativeTheme.shouldUseDarkColors ? '#1c1c1f' : '#f3f3f5')

/** `turn`: another one each time, since the address where the page is already would load it anew. */
export const addressOf = (at: WindowPlace | undefined, turn: number): string =>
  at ? `${appUrl}${fragmentOf(at)}?${turn}` : appUrl

const forms: Readonly<Record<Form, BrowserWindowConstructorOptions>> = {
  popover: {
    // Takes the keys without making this app the active one, and is shown over those that fill the screen.
    type: 'panel',
    frame: false,
    resizable: false,
    maximizable: false,
    minimizable: false,
    fullscreenable: false,
    skipTaskbar: true,
    hiddenInMissionControl: true,
  },
  window: { minWidth: 320, minHeight: 400 },
}
