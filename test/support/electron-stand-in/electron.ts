/**
 * What the app uses of Electron for macOS, for a Node.js without it: menus and icons as data, windows as pages of a real Chromium. It is at
 * least as strict: what a real one refuses, passes over in silence or does late is refused or late here. It has no top-level await, so
 * that it can also be required.
 */
import * as electron from './modules.ts'

export * from './modules.ts'
export default electron
