// Loaded into Electron before the app (`electron -r`): keeps what a test cannot find from outside, and opens no native menu, which would
// wait for a person.
const { app, Tray } = require('electron')

const kept = { tray: undefined, menu: undefined }
globalThis.metalbarTest = kept

// Never on the files of the person whose machine this is.
if (!app.getPath('home').startsWith(process.env.METALBAR_TEST_HOME ?? '/nowhere')) {
  process.stderr.write(`The app would use ${app.getPath('home')}.\n`)
  app.exit(1)
}

const { setIgnoreDoubleClickEvents } = Tray.prototype
Tray.prototype.setIgnoreDoubleClickEvents = function (ignores) {
  kept.tray = this
  return setIgnoreDoubleClickEvents.call(this, ignores)
}
Tray.prototype.popUpContextMenu = function (menu) {
  kept.menu = menu
}
