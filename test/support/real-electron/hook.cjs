// Loaded into Electron before the app (`electron -r`, or by `packed-main.js`): keeps what a test cannot find from outside, and stands where a person, or the screen,
// clipboard or programs of whoever's machine this is would be reached.
const { setFlagsFromString } = require('node:v8')
const { runInNewContext } = require('node:vm')
const { URL } = require('node:url')
const { app, BaseWindow, clipboard, dialog, ipcMain, nativeImage, protocol, shell, Tray } = require('electron')

// Never on the files of the person whose machine this is.
if (!app.getPath('home').startsWith(process.env.METALBAR_TEST_HOME ?? '/nowhere')) {
  process.stderr.write(`The app would use ${app.getPath('home')}.\n`)
  app.exit(1)
}

let tray
let menu
const kept = {
  // Weakly, so that what nothing of the app refers to is still taken away.
  get tray() {
    return tray?.deref()
  },
  get menu() {
    return menu?.deref()
  },
  isMenuOpen: false,
  icon: { image: '', isTemplate: false, toolTip: '', title: '', cpuMs: 0 },
  iconBounds: undefined,
  questions: [],
  opened: [],
  /** Of the next dialog for a file; null = cancelled. */
  chosenFile: undefined,
  /** What the app answers requests with: by channel, by scheme, by what asks for a permission. */
  channels: new Map(),
  schemes: new Map(),
  permissions: {},
  copied: [],
  sent: new WeakMap(),
  isSandboxed: false,
  shown: (entries) =>
    entries.items.map(({ type, label, enabled, checked, submenu }) => {
      if (type === 'separator') return '-'
      const text = `${checked ? '✓ ' : ''}${seen(label)}`
      if (submenu) return { label: text, entries: kept.shown(submenu) }
      return enabled ? text : `(${text})`
    }),
  choose: (entries, labels) => {
    let items = entries?.items ?? []
    let chosen
    for (const label of labels) {
      const enabled = items.filter((item) => item.enabled)
      chosen =
        enabled.find((item) => seen(item.label) === label) ?? enabled.find((item) => seen(item.label).startsWith(label))
      items = chosen?.submenu?.items ?? []
    }
    if (!chosen || chosen.submenu) throw new Error(`There is no entry ${labels.join(' ▸ ')} that can be chosen.`)
    entries.emit('menu-will-close')
    chosen.click()
  },
  collectGarbage: () => {
    setFlagsFromString('--expose-gc')
    runInNewContext('gc')()
  },
}
globalThis.metalbarTest = kept

/** As macOS shows it: one ampersand marks a key and is not seen, two are one. */
const seen = (label) => label.replaceAll(/&(.?)/g, (_, next) => next)

/** `before` gets what `method` of `object` is called with, which then does what it always did. */
function onCall(object, method, before) {
  const original = object[method]
  object[method] = function (...args) {
    before.call(this, ...args)
    return original?.apply(this, args)
  }
}

onCall(Tray.prototype, 'setIgnoreDoubleClickEvents', function () {
  tray = new WeakRef(this)
  const { user, system } = process.cpuUsage()
  kept.icon.cpuMs = (user + system) / 1_000
})
onCall(Tray.prototype, 'setToolTip', (text) => (kept.icon.toolTip = text))
if ('setTitle' in Tray.prototype) onCall(Tray.prototype, 'setTitle', (title) => (kept.icon.title = title))
const { getBounds } = Tray.prototype
Tray.prototype.getBounds = function () {
  return kept.iconBounds ?? getBounds.call(this)
}
// Opens no native menu, which would wait for a person.
Tray.prototype.popUpContextMenu = function (opened) {
  menu = new WeakRef(opened)
  kept.isMenuOpen = true
  opened.once('menu-will-close', () => (kept.isMenuOpen = false))
  kept.menuShown?.()
}

const { createFromPath } = nativeImage
nativeImage.createFromPath = (file) => {
  const image = createFromPath(file)
  // The app makes one when it shows it.
  kept.icon.image = image.isEmpty() ? '' : file.split('/').at(-1)
  onCall(image, 'setTemplateImage', (isTemplate) => (kept.icon.isTemplate = isTemplate))
  return image
}

dialog.showMessageBox = (window, box) =>
  window instanceof BaseWindow && window.isVisible()
    ? new Promise((resolve) => kept.questions.push({ box, answer: resolve }))
    : Promise.reject(new Error('A question without a window that is shown blocks the app, and its agent.'))
for (const blocking of ['showErrorBox', 'showMessageBoxSync', 'showOpenDialogSync', 'showSaveDialogSync']) {
  dialog[blocking] = () => {
    throw new Error(`${blocking} blocks the app, and its agent.`)
  }
}
dialog.showOpenDialog = () => {
  const { chosenFile } = kept
  if (chosenFile === undefined) return Promise.reject(new Error('Nobody chooses a file.'))
  kept.chosenFile = undefined
  return Promise.resolve({ canceled: chosenFile === null, filePaths: chosenFile === null ? [] : [chosenFile] })
}
clipboard.writeText = (text) => {
  kept.copied.push(text)
  return Promise.resolve()
}
shell.showItemInFolder = (file) => void kept.opened.push(file)
shell.openPath = (file) => {
  kept.opened.push(file)
  return Promise.resolve('')
}
shell.openExternal = (url) => {
  kept.opened.push(new URL(url).href)
  return Promise.resolve()
}

onCall(ipcMain, 'handle', (channel, handler) => kept.channels.set(channel, handler))
onCall(protocol, 'handle', (scheme, handler) => kept.schemes.set(scheme, handler))
app.on('session-created', (session) => {
  onCall(session, 'setPermissionRequestHandler', (handler) => (kept.permissions.request ??= handler))
  onCall(session, 'setPermissionCheckHandler', (handler) => (kept.permissions.check ??= handler))
})

// Lists of the system, in which the app would stay.
app.setAsDefaultProtocolClient = () => true
app.setLoginItemSettings = () => undefined
app.getLoginItemSettings = () => ({ openAtLogin: false, status: 'not-registered' })
onCall(app, 'enableSandbox', () => (kept.isSandboxed = true))
app.on('web-contents-created', (_event, contents) => {
  onCall(contents, 'send', () => kept.sent.set(contents, (kept.sent.get(contents) ?? 0) + 1))
})
