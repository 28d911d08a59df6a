import { Menu, type MenuItemConstructorOptions } from 'electron'

export interface AppMenuOptions {
  readonly onSettings: () => void
  readonly onUpdates: () => void
  readonly onQuit: () => void
}

/** Seen only while the window has the focus; its keys are what a person expects of any window. */
export const showAppMenu = (options: AppMenuOptions): void =>
  Menu.setApplicationMenu(Menu.buildFromTemplate(appMenu(options)))

const appMenu = ({ onSettings, onUpdates, onQuit }: AppMenuOptions): MenuItemConstructorOptions[] => [
  {
    label: 'Metalbar',
    submenu: [
      { role: 'about' },
      { label: 'Check for Updates…', click: onUpdates },
      { type: 'separator' },
      { label: 'Settings…', accelerator: 'Command+,', click: onSettings },
      { type: 'separator' },
      { role: 'hide' },
      { role: 'hideOthers' },
      { role: 'unhide' },
      { type: 'separator' },
      { label: 'Quit Metalbar', accelerator: 'Command+Q', click: onQuit },
    ],
  },
  { role: 'editMenu' },
  { label: 'Window', submenu: [{ role: 'close' }, { role: 'minimize' }] },
]
