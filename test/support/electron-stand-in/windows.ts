import type { BrowserWindow } from './browser-window.ts'

/** Those that are open. */
export const windows = new Set<BrowserWindow>()

export const focusedWindow = (): BrowserWindow | undefined => [...windows].find((window) => window.isFocused())
