import type { Menu, MessageBoxOptions, Rectangle, Tray, WebContents } from 'electron'
import type { ControlRequest } from '../electron-stand-in/control.ts'

/** What `hook.cjs` keeps in the app. */
interface Kept {
  readonly tray: Tray | undefined
  readonly menu: Menu | undefined
  readonly isMenuOpen: boolean
  readonly icon: object
  iconBounds: Rectangle | undefined
  menuShown: (() => void) | undefined
  /** Those that wait for an answer, in the order in which they were asked. */
  readonly questions: {
    readonly box: MessageBoxOptions
    answer(given: { response: number; checkboxChecked: boolean }): void
  }[]
  readonly opened: readonly string[]
  chosenFile: string | null | undefined
  readonly channels: ReadonlyMap<string, (event: object, content: unknown) => unknown>
  readonly schemes: ReadonlyMap<string, (request: Request) => Response | Promise<Response>>
  readonly permissions: {
    readonly request?: (page: null, permission: string, allow: (granted: boolean) => void, details: object) => void
    readonly check?: (page: null, permission: string, origin: string) => boolean
  }
  readonly copied: readonly string[]
  readonly sent: WeakMap<WebContents, number>
  readonly isSandboxed: boolean
  shown(menu: { readonly items: unknown }): unknown
  choose(menu: { readonly items: unknown } | null | undefined, labels: readonly string[]): void
  collectGarbage(): void
}
type Hooked = typeof globalThis & { readonly metalbarTest: Kept }

type Do = ControlRequest['do']
type Requested<K extends Do> = Extract<ControlRequest, { readonly do: K }>
type Carry<K extends Do> = (electron: typeof import('electron'), request: Requested<K>) => unknown

/** Each runs in the app, so it refers to nothing outside of itself. What is missing here is the stand-in's alone. */
export const carriers: { readonly [K in Do]?: Carry<K> } = {
  look: ({ app, BrowserWindow }) => {
    const kept = (globalThis as Hooked).metalbarTest
    return {
      icon: kept.tray && kept.icon,
      windows: BrowserWindow.getAllWindows().map((window) => {
        const { webContents } = window
        const bounds = window.getBounds()
        const preferences = (
          webContents as WebContents & { getLastWebPreferences?(): Record<string, unknown> }
        ).getLastWebPreferences?.call(webContents)
        return {
          isVisible: window.isVisible(),
          bounds,
          hasFrame: window.getContentBounds().height !== bounds.height,
          background: window.getBackgroundColor().toLowerCase(),
          webPreferences: {
            sandbox: preferences?.['sandbox'],
            contextIsolation: preferences?.['contextIsolation'],
            nodeIntegration: preferences?.['nodeIntegration'],
          },
          url: webContents.getURL(),
          sent: kept.sent.get(webContents) ?? 0,
        }
      }),
      isSandboxed: kept.isSandboxed,
      // Both there on macOS alone.
      isInDock: app.dock?.isVisible() === true,
      isActive: 'isActive' in app && app.isActive(),
      isMenuOpen: kept.isMenuOpen,
    }
  },

  clickIcon: ({ BrowserWindow }, { blur = 'before', ctrlKey = false }) => {
    const { tray } = (globalThis as Hooked).metalbarTest
    if (!tray) throw new Error('There is no icon yet.')
    if (blur === 'before') BrowserWindow.getFocusedWindow()?.blur()
    const { x, y } = tray.getBounds()
    tray.emit('mouse-down', { ctrlKey }, { x, y })
    tray.emit('click', { ctrlKey }, tray.getBounds())
  },

  openMenu: async () => {
    const kept = (globalThis as Hooked).metalbarTest
    if (!kept.tray) return undefined
    kept.menu?.emit('menu-will-close')
    const { promise, resolve } = Promise.withResolvers<unknown>()
    kept.menuShown = () => resolve(undefined)
    kept.tray.emit('right-click', {}, kept.tray.getBounds())
    await promise
    return kept.menu && kept.shown(kept.menu)
  },

  choose: (_electron, { labels }) => {
    const kept = (globalThis as Hooked).metalbarTest
    kept.choose(kept.menu, labels)
  },

  chooseInBar: ({ Menu }, { labels }) => (globalThis as Hooked).metalbarTest.choose(Menu.getApplicationMenu(), labels),

  closeMenu: () => void (globalThis as Hooked).metalbarTest.menu?.emit('menu-will-close'),

  /** Native roles are macOS' own, which carries them out for keys alone: those of Close are done as it does. */
  keys: ({ BrowserWindow, Menu }, { accelerator }) => {
    const keys = (text: string) => text.replace(/^(CommandOrControl|CmdOrCtrl|Cmd)\+/, 'Command+')
    const items = Menu.getApplicationMenu()?.items.flatMap((item) => [item, ...(item.submenu?.items ?? [])]) ?? []
    const found = items.find(
      ({ role, accelerator: own }) => keys(own ?? (role === 'close' ? 'Command+W' : '')) === keys(accelerator),
    )
    if (found?.role === 'close') for (const window of BrowserWindow.getAllWindows()) window.close()
    else found?.click()
    return found !== undefined
  },

  question: () => (globalThis as Hooked).metalbarTest.questions.at(-1)?.box,

  press: (_electron, { button, isChecked = false }) => {
    const { questions } = (globalThis as Hooked).metalbarTest
    const at = questions.findLastIndex(({ box }) => box.buttons?.includes(button))
    const [asked] = at === -1 ? [] : questions.splice(at, 1)
    if (!asked) throw new Error(`There is no button ${button}.`)
    asked.answer({ response: asked.box.buttons?.indexOf(button) ?? 0, checkboxChecked: isChecked })
  },

  opened: () => (globalThis as Hooked).metalbarTest.opened,

  chooseFile: (_electron, { file }) => void ((globalThis as Hooked).metalbarTest.chosenFile = file),

  openLink: ({ app }, { link }) => void app.emit('open-url', { preventDefault: () => undefined }, link),

  helperGone: ({ app }, { type, reason }) => void app.emit('child-process-gone', {}, { type, reason, exitCode: 9 }),

  /** As the app's own handlers answer it; Electron's are not asked, which know the page that a request is from. */
  forge: (_electron, { channel, content, origin, frame }) => {
    const handler = (globalThis as Hooked).metalbarTest.channels.get(channel)
    if (!handler) throw new Error(`No handler registered for '${channel}'`)
    const own = { origin, url: `${origin}/index.html` }
    const senderFrame = { main: own, sub: { ...own }, gone: null }[frame]
    return handler({ sender: { mainFrame: own }, senderFrame }, content)
  },

  request: async (_electron, { url, method }) => {
    const handler = (globalThis as Hooked).metalbarTest.schemes.get(new URL(url).protocol.replace(/:$/, ''))
    if (!handler) throw new Error(`Nobody answers ${url}.`)
    const response = await handler(new Request(url, { method }))
    return { status: response.status, headers: Object.fromEntries(response.headers), body: await response.text() }
  },

  permissions: (_electron, { origin, permission }) => {
    const { request, check } = (globalThis as Hooked).metalbarTest.permissions
    const answer = { asked: true, checked: check?.(null, permission, `${origin}/`) ?? true }
    const allow = (granted: boolean) => void (answer.asked = granted)
    request?.(null, permission, allow, { requestingUrl: `${origin}/index.html` })
    return answer
  },

  clipboard: () => (globalThis as Hooked).metalbarTest.copied.at(-1),

  /** Announced without the machine doing it. */
  power: ({ app, powerMonitor }, { event }) => {
    const announced = {
      defaultPrevented: false,
      preventDefault: () => void (announced.defaultPrevented = true),
    }
    ;(powerMonitor as NodeJS.EventEmitter).emit(event, announced)
    if (event === 'shutdown' && !announced.defaultPrevented) app.quit()
    return announced.defaultPrevented
  },

  moveIcon: (_electron, { bounds }) => void ((globalThis as Hooked).metalbarTest.iconBounds = bounds),

  appearance: ({ nativeTheme }, { is }) => void (nativeTheme.themeSource = is),

  crashPage: ({ BrowserWindow }) =>
    Promise.all(
      BrowserWindow.getAllWindows().map(({ webContents }) => {
        const { promise, resolve } = Promise.withResolvers<unknown>()
        webContents.once('render-process-gone', () => resolve(undefined))
        webContents.forcefullyCrashRenderer()
        return promise
      }),
    ),

  closeWindow: ({ BrowserWindow }) => {
    for (const window of BrowserWindow.getAllWindows()) window.close()
  },

  clickElsewhere: ({ app, BrowserWindow }) => {
    BrowserWindow.getFocusedWindow()?.blur()
    app.emit('did-resign-active')
  },

  collectGarbage: () => (globalThis as Hooked).metalbarTest.collectGarbage(),

  activate: ({ app }) => void app.emit('activate'),

  fail: (_electron, { message, how }) =>
    void setTimeout(() => {
      const error = new Error(message)
      if (how === 'thrown') throw error
      void Promise.reject(error)
    }),
}
