/**
 * What the app uses of Electron, for a Node.js without it: menus and icons as data, windows as pages of a real Chromium. It has no
 * top-level await, so that it can also be required.
 */
import { app } from './app.ts'
import { BrowserWindow } from './browser-window.ts'
import { answerControl } from './control.ts'
import { dialog } from './dialog.ts'
import { ipcMain } from './ipc-main.ts'
import { Menu } from './menu.ts'
import { protocol } from './protocol.ts'
import { screen } from './screen.ts'
import { session } from './session.ts'
import { shell } from './shell.ts'
import { nativeImage, Tray } from './tray.ts'

export { app, BrowserWindow, dialog, ipcMain, Menu, nativeImage, protocol, screen, session, shell, Tray }
export default { app, BrowserWindow, dialog, ipcMain, Menu, nativeImage, protocol, screen, session, shell, Tray }

answerControl()
