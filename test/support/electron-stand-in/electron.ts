/**
 * What the app uses of Electron for macOS, for a Node.js without it: menus and icons as data, windows as pages of a real Chromium. It is at
 * least as strict: what a real one refuses, passes over in silence or does late is refused or late here. It has no top-level await, so
 * that it can also be required.
 */
import { app } from './app.ts'
import { autoUpdater } from './auto-updater.ts'
import { BaseWindow } from './base-window.ts'
import { BrowserWindow } from './browser-window.ts'
import { clipboard } from './clipboard.ts'
import { dialog } from './dialog.ts'
import { ipcMain } from './ipc-main.ts'
import { Menu } from './menu.ts'
import { nativeImage } from './native-image.ts'
import { nativeTheme } from './native-theme.ts'
import { net } from './net.ts'
import { Notification } from './notification.ts'
import { powerMonitor } from './power-monitor.ts'
import { powerSaveBlocker } from './power-save-blocker.ts'
import { protocol } from './protocol.ts'
import { safeStorage } from './safe-storage.ts'
import { screen } from './screen.ts'
import { session } from './session.ts'
import { shell } from './shell.ts'
import { systemPreferences } from './system-preferences.ts'
import { Tray } from './tray.ts'

const electron = {
  app,
  autoUpdater,
  BaseWindow,
  BrowserWindow,
  clipboard,
  dialog,
  ipcMain,
  Menu,
  nativeImage,
  nativeTheme,
  net,
  Notification,
  powerMonitor,
  powerSaveBlocker,
  protocol,
  safeStorage,
  screen,
  session,
  shell,
  systemPreferences,
  Tray,
}
export {
  app,
  autoUpdater,
  BaseWindow,
  BrowserWindow,
  clipboard,
  dialog,
  ipcMain,
  Menu,
  nativeImage,
  nativeTheme,
  net,
  Notification,
  powerMonitor,
  powerSaveBlocker,
  protocol,
  safeStorage,
  screen,
  session,
  shell,
  systemPreferences,
  Tray,
}
export default electron
