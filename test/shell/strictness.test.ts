import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { bridgeEnd } from '../support/electron-stand-in/bridge-end.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** The stand-in for Electron refuses what a real one refuses, or what it passes over in silence and a person would then miss. */

const fresh = async () => {
  vi.resetModules()
  const electron = await import('../support/electron-stand-in/electron.ts')
  const { app } = await import('../support/electron-stand-in/app.ts')
  return { ...electron, ready: () => app.becomeReady() }
}

const box = { message: 'Quit?', buttons: ['Quit'] }
const options = { width: 400, height: 300, webPreferences: { preload: import.meta.filename } }
const ask = ({ BrowserWindow, dialog }: Awaited<ReturnType<typeof fresh>>, asked: typeof box & { type?: string }) =>
  dialog.showMessageBox(new BrowserWindow(options), asked)

describe('before the app is ready', () => {
  test.for([
    ['a window', ({ BrowserWindow }) => new BrowserWindow(options)],
    ['an icon', ({ Tray, nativeImage }) => new Tray(nativeImage.createFromPath(''))],
    ['the displays', ({ screen }) => screen.getAllDisplays()],
    ['the session', ({ session }) => session.defaultSession],
    ['the answers of a scheme', ({ protocol }) => protocol.handle('app', () => new Response())],
    ['a notification', ({ Notification }) => new Notification({ title: 'tiny' })],
  ] as [string, (electron: Awaited<ReturnType<typeof fresh>>) => unknown][])('there is no %s', async ([, use]) => {
    const electron = await fresh()
    expect(() => use(electron)).toThrow('ready')
    electron.ready()
    expect(() => use(electron)).not.toThrow()
  })

  test('a scheme gets its privileges, and only then and once', async () => {
    const { protocol, ready } = await fresh()
    const register = () => protocol.registerSchemesAsPrivileged([{ scheme: 'app', privileges: { standard: true } }])
    register()
    expect(register).toThrow('once')
    ready()
    expect(register).toThrow('before app is ready')
  })
})

test('a page is not heard once its window is gone', async () => {
  const { BrowserWindow, ipcMain, ready } = await fresh()
  const { invoke } = await import('../support/electron-stand-in/ipc-main.ts')
  ready()
  const heard: unknown[] = []
  ipcMain.handle('escape', (_event, by) => void heard.push(by))
  // The app ends with its last window.
  const [window] = [new BrowserWindow(options), new BrowserWindow(options)]
  const { webContents } = window
  const press = (by: string) => invoke({ sender: webContents, senderFrame: webContents.mainFrame }, 'escape', [by])
  await press('while it is open')
  window.destroy()
  await expect(press('late')).rejects.toThrow('destroyed')
  expect(heard).toEqual(['while it is open'])
})

test('before the app is ready there is no question and no dialog for files', async () => {
  const { dialog } = await fresh()
  for (const use of [() => dialog.showMessageBox(undefined, box), () => dialog.showOpenDialog({ properties: [] })]) {
    expect(use).toThrow('after app is ready')
  }
})

describe('the program’s own module', () => {
  /** Ends when nothing keeps it, which is before it is ready. */
  const run = async (text: string, env: Readonly<Record<string, string>> = {}) => {
    await using folder = await temporaryFolder()
    const file = path.join(folder.dir, 'main.mjs')
    await writeFile(file, `import { app } from 'electron'\n${text}`)
    const standIn = path.join(import.meta.dirname, '../support/electron-stand-in')
    const args = ['--import', path.join(standIn, 'register.ts'), path.join(standIn, 'run-app.ts'), file]
    const ended = promisify(execFile)(process.execPath, args, { env })
    return await ended.then(
      ({ stdout }) => ({ code: 0, stdout }),
      (error: unknown) => exit.parse(error),
    )
  }
  const ready = `app.on('ready', () => { console.log('ready'); app.exit() })`
  const begin = `app.on('open-url', (event, link) => { event.preventDefault(); console.log(link) })
    ${ready}`

  test('is evaluated before the app is ready, so that one which waits for that waits for ever', async () => {
    expect(await run(`${begin}\nawait app.whenReady()`)).toEqual({ code: neverSettled, stdout: '' })
    expect(await run(begin)).toEqual({ code: 0, stdout: 'ready\n' })
  })

  test('is told of the link that started it before the app is ready', async () => {
    const link = { ELECTRON_STAND_IN_LINK: 'metalbar://open' }
    expect((await run(begin, link)).stdout).toBe('metalbar://open\nready\n')
  })

  test('has to say that it follows a link', async () => {
    const link = { ELECTRON_STAND_IN_LINK: 'metalbar://open' }
    const silent = `app.on('open-url', (_event, link) => console.log(link))\n${ready}`
    expect(await run(silent, link)).toEqual({ code: 1, stdout: 'metalbar://open\n' })
  })
})

const exit = z.object({ code: z.number(), stdout: z.string() })

/** What Node.js ends with where a module awaits what nothing can settle any more. */
const neverSettled = 13

test('a window or an icon that was destroyed can only be asked whether it is', async () => {
  const { app, BrowserWindow, nativeImage, ready, Tray } = await fresh()
  ready()
  app.on('window-all-closed', () => undefined)
  const window = new BrowserWindow(options)
  const { webContents } = window
  window.destroy()
  const tray = new Tray(nativeImage.createFromPath(''))
  tray.destroy()
  expect([window.isDestroyed(), tray.isDestroyed(), webContents.isDestroyed()]).toEqual([true, true, true])
  for (const use of [
    () => window.show(),
    () => window.webContents,
    () => window.destroy(),
    () => webContents.send('channel'),
    () => tray.setToolTip('there'),
    () => tray.getBounds(),
  ]) {
    expect(use).toThrow('Object has been destroyed')
  }
})

test.for([
  ['a fraction', { x: 1.5, y: 0 }],
  ['-0', { x: 0, y: -0 }],
  ['no number', { x: Number.NaN, y: 0 }],
] as const)('%s is no place of a window', async ([, { x, y }]) => {
  const { BrowserWindow, ready } = await fresh()
  ready()
  expect(() => new BrowserWindow(options).setPosition(x, y)).toThrow('conversion failure')
})

test.for([
  ['an option', { ...options, resizeable: false }],
  ['an option of the page', { ...options, webPreferences: { ...options.webPreferences, sandboxed: true } }],
  ['a type of another system', { ...options, type: 'toolbar' }],
] as const)('%s that does not exist is refused', async ([, wrong]) => {
  const { BrowserWindow, ready } = await fresh()
  ready()
  expect(() => new BrowserWindow(wrong)).toThrow(TypeError)
})

test.for([
  [
    'a font of the title',
    ({ Tray, nativeImage }) => new Tray(nativeImage.createFromPath('')).setTitle('1', { fontType: 'mono' }),
  ],
  ['a blocker', ({ powerSaveBlocker }) => powerSaveBlocker.start('prevent-sleep')],
  ['a type of question', (electron) => ask(electron, { ...box, type: 'information' })],
  ['an option of a question', (electron) => ask(electron, { ...box, ...{ checkBoxLabel: 'Again' } })],
  [
    'an option of a dialog for files',
    ({ dialog }) => dialog.showOpenDialog({ properties: [], ...{ okLabel: 'Choose' } }),
  ],
  ['a property of a dialog for files', ({ dialog }) => dialog.showOpenDialog({ properties: ['showHidden'] })],
  ['an option of a notification', ({ Notification }) => new Notification({ title: 'tiny', ...{ isSilent: true } })],
  ['a way to take the focus', ({ app }) => app.focus({ steal: true, ...{ stealing: true } })],
  [
    'an option of the login item',
    ({ app }) => app.setLoginItemSettings({ type: 'mainAppService', ...{ opensAtLogin: true } }),
  ],
  [
    'an event of the icon',
    ({ Tray, nativeImage }) => new Tray(nativeImage.createFromPath('')).on('right-clicked', () => 0),
  ],
  ['an event of the app', ({ app }) => app.once('activated', () => 0)],
  ['an event of the displays', ({ screen }) => screen.on('display-changed', () => 0)],
  ['an event of the machine', ({ powerMonitor }) => powerMonitor.on('sleep', () => 0)],
  ['an event of a window', ({ BrowserWindow }) => new BrowserWindow(options).on('hidden', () => 0)],
  ['an event of a page', ({ BrowserWindow }) => new BrowserWindow(options).webContents.on('crashed', () => 0)],
] as [string, (electron: Awaited<ReturnType<typeof fresh>>) => unknown][])(
  '%s that does not exist is refused, although Electron may pass it over in silence',
  async ([, use]) => {
    const electron = await fresh()
    electron.ready()
    expect(() => use(electron)).toThrow(TypeError)
  },
)

test('a window is shown as it is made unless it is told not to be, which would be seen before it is painted', async () => {
  vi.useFakeTimers()
  try {
    const { BrowserWindow, ready } = await fresh()
    ready()
    const made = [new BrowserWindow(options), new BrowserWindow({ ...options, show: false })]
    await vi.advanceTimersByTimeAsync(100)
    expect(made.map((window) => window.isVisible())).toEqual([true, false])
  } finally {
    vi.useRealTimers()
  }
})

test('the first power save blocker is 0, which is no lack of one', async () => {
  const { powerSaveBlocker } = await fresh()
  expect(powerSaveBlocker.start('prevent-app-suspension')).toBe(0)
})

test.for([
  { role: 'editmenus' },
  { label: 'Open', acelerator: 'Command+O' },
  { label: 'Open', accelerator: 'Apple+O' },
  { label: 'Open', accelerator: 'Command+Opening' },
  { label: 'Open', type: 'check' },
  { click: () => undefined },
  { label: 'More', submenu: [{ role: 'closes' }] },
])('the entry %o is refused', async (item) => {
  const { Menu } = await fresh()
  expect(() => Menu.buildFromTemplate([item])).toThrow(Error)
})

describe('a question', () => {
  test('without a window, or of a hidden one, is refused: macOS would let nothing else of the app run, or show it to nobody', async () => {
    const { BaseWindow, dialog, ready } = await fresh()
    ready()
    const window = new BaseWindow({ width: 1, height: 1, show: false })
    expect(() => dialog.showMessageBox(undefined, box)).toThrow('blocks the app')
    expect(() => dialog.showMessageBox(window, box)).toThrow('hidden')
    window.show()
    expect(() => void dialog.showMessageBox(window, box)).not.toThrow()
  })

  test.for(['showErrorBox', 'showMessageBoxSync', 'showOpenDialogSync', 'showSaveDialogSync'] as const)(
    'by %s is refused, whoever asks',
    async (way) => {
      const { dialog } = await fresh()
      expect(() => dialog[way]()).toThrow('blocks the app')
    },
  )
})

test('a missing image is an empty one', async () => {
  const { nativeImage } = await fresh()
  expect(nativeImage.createFromPath('/nowhere/idleTemplate.png').isEmpty()).toBe(true)
})

describe('the end', () => {
  test('comes when the last window closes, where nobody says otherwise', async () => {
    const { app, BrowserWindow, ready } = await fresh()
    const exit = vi.spyOn(app, 'exit').mockReturnValue()
    ready()
    new BrowserWindow(options).close()
    await Promise.resolve()
    expect(exit).toHaveBeenCalledWith(0)
  })

  test('is held up by a window that stays', async () => {
    const { app, BrowserWindow, ready } = await fresh()
    const exit = vi.spyOn(app, 'exit').mockReturnValue()
    ready()
    const window = new BrowserWindow(options)
    window.once('close', (event: { preventDefault(): void }) => event.preventDefault())
    app.quit()
    await Promise.resolve()
    expect([window.isDestroyed(), exit.mock.calls]).toEqual([false, []])
    app.quit()
    await Promise.resolve()
    expect([window.isDestroyed(), exit.mock.calls]).toEqual([true, [[0]]])
  })
})

describe('the bridge between the worlds of a page', () => {
  const worlds = () => {
    const events = new EventTarget()
    const world = (): EventTarget & Record<string, unknown> =>
      Object.assign(Object.create(null) as Record<string, unknown>, {
        addEventListener: events.addEventListener.bind(events),
        removeEventListener: events.removeEventListener.bind(events),
        dispatchEvent: events.dispatchEvent.bind(events),
      })
    const [page, preload] = [world(), world()]
    bridgeEnd('page', page)
    return { page, bridge: bridgeEnd('preload', preload) }
  }

  class Server {
    name = 'tiny'
    start(): string {
      return 'started'
    }
  }

  test('passes copies without prototypes and without symbols', () => {
    const { page, bridge } = worlds()
    bridge.expose('api', { server: new Server(), at: new Date(0), secret: Symbol('secret'), list: [1, undefined] })
    expect(page['api']).toStrictEqual({ server: { name: 'tiny' }, at: new Date(0), list: [1, undefined] })
  })

  test('calls functions across, in both directions', () => {
    const { page, bridge } = worlds()
    bridge.expose('api', { twice: (ask: (value: number) => number) => ask(ask(1)) })
    const { twice } = page['api'] as { twice: (ask: (value: number) => number) => number }
    expect(twice((value) => value + 10)).toBe(21)
  })

  test('tells of an error its message alone, thrown or of a promise', async () => {
    const { page, bridge } = worlds()
    const error = Object.assign(new TypeError('no such model'), { code: 'gone' })
    bridge.expose('api', {
      throws: () => {
        throw error
      },
      rejects: () => Promise.reject(error),
    })
    const { throws, rejects } = page['api'] as { throws: () => unknown; rejects: () => Promise<unknown> }
    expect(throws).toThrow(new Error('no such model'))
    const told: unknown = await rejects().catch((failure: unknown) => failure)
    expect([told instanceof TypeError, told]).toEqual([false, new Error('no such model')])
  })

  test('cannot be changed by the page, and takes a name once', () => {
    const { page, bridge } = worlds()
    bridge.expose('api', { name: 'tiny' })
    expect(Object.isFrozen(page['api'])).toBe(true)
    expect(() => bridge.expose('api', {})).toThrow('existing property')
  })
})
