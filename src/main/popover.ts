import { app, BrowserWindow, nativeTheme, screen, type BrowserWindowConstructorOptions, type Rectangle } from 'electron'
import type { Logger } from '../agent-core/observability/logger.ts'
import { appUrl } from './app-scheme.ts'
import { isHidden, popoverPosition } from './popover-position.ts'
import { fragmentOf, type WindowPlace } from './window-place.ts'

export interface PopoverOptions {
  readonly preload: string
  readonly log: Logger
  /** Where the icon is. */
  readonly icon: () => Rectangle
  /** Why the window is not opened any more: one sentence; undefined = it is. */
  readonly onProblem: (problem: string | undefined) => void
  /** How long a hidden window is kept before its memory is given back. */
  readonly graceMs?: number
}

const size = { width: 400, height: 620 }

/** A person who closes the window by mistake and opens it again within a minute finds it as it was. */
const defaultGraceMs = 60_000

/** A click on the icon takes the focus from the window, which hides it, and must not show it again. */
const sameClickMs = 150

/** A page that crashes twice so soon would do it for ever. */
const crashLoopMs = 60_000

/** `popover`: under the icon, until a person looks elsewhere. `window`: as any other, with an icon in the Dock. */
type Form = 'popover' | 'window'

/** The one window; it exists only while it is open, and a while after. */
export class Popover {
  readonly #options: PopoverOptions
  #window: BrowserWindow | undefined
  #form: Form = 'popover'
  /** Its page has been painted once. */
  #isPainted = false
  /** It was asked for, and is shown when it is painted. */
  #isWanted = false
  #loads = 0
  #hiddenByBlurAt = -Infinity
  #crashedAt = -Infinity
  /** Its page has what a person wrote and nobody else has. */
  #isKept = false
  /** A dialog of the system has the focus, and gives it back. */
  #isAsking = false
  #grace: NodeJS.Timeout | undefined

  constructor(options: PopoverOptions) {
    this.#options = options
  }

  /** `icon`: where it was clicked. */
  toggle(icon?: Rectangle): void {
    if (this.#window?.isVisible() === true && this.#form === 'popover') this.hide()
    else if (performance.now() - this.#hiddenByBlurAt >= sameClickMs) this.show(undefined, icon)
  }

  /** A person asks for it, so it is tried again although it crashed. */
  show(at?: WindowPlace, icon?: Rectangle): void {
    clearTimeout(this.#grace)
    this.#isWanted = true
    this.#options.onProblem(undefined)
    const isNew = this.#window === undefined
    const window = (this.#window ??= this.#create(at))
    if (this.#form === 'popover') this.#place(window, icon)
    if (!isNew && at) this.#load(window, at)
    if (this.#isPainted) this.#reveal(window)
  }

  /** From now on a window of its own, until it is closed. */
  tearOff(): void {
    if (this.#form === 'window') {
      this.show()
      return
    }
    this.#window?.destroy()
    this.#form = 'window'
    void app.dock?.show()
    this.show()
  }

  /** A window of its own stays, as any other does. */
  escape(): void {
    if (this.#form === 'popover') this.hide()
  }

  hide(): void {
    this.#isWanted = false
    if (this.#form === 'window') {
      this.#window?.close()
      return
    }
    this.#window?.hide()
    clearTimeout(this.#grace)
    if (this.#isKept) return
    this.#grace = setTimeout(() => this.#window?.destroy(), this.#options.graceMs ?? defaultGraceMs)
  }

  /** While it is kept, it is hidden without an end. */
  keep(isKept: boolean): void {
    this.#isKept = isKept
    if (isKept) clearTimeout(this.#grace)
  }

  /** A dialog takes the focus from the window, which it is asked by, and must not hide it. */
  async during<T>(dialog: () => Promise<T>): Promise<T> {
    this.#isAsking = true
    try {
      return await dialog()
    } finally {
      this.#isAsking = false
      if (this.#window?.isVisible() === true) this.#window.focus()
    }
  }

  #place(window: BrowserWindow, clicked: Rectangle | undefined): void {
    const icon = clicked && !isHidden(clicked) ? clicked : this.#options.icon()
    const display = isHidden(icon)
      ? screen.getDisplayNearestPoint(screen.getCursorScreenPoint())
      : screen.getDisplayMatching(icon)
    const { x, y } = popoverPosition(icon, size, display.workArea)
    window.setPosition(x, y)
  }

  #reveal(window: BrowserWindow): void {
    window.show()
    window.focus()
  }

  #create(at: WindowPlace | undefined): BrowserWindow {
    const { preload } = this.#options
    const window = new BrowserWindow({
      ...size,
      title: 'Metalbar',
      show: false,
      // The page's own ground, so that nothing flashes before it is painted.
      backgroundColor: nativeTheme.shouldUseDarkColors ? '#1c1c1f' : '#f3f3f5',
      ...forms[this.#form],
      webPreferences: { preload, sandbox: true, contextIsolation: true, nodeIntegration: false, spellcheck: false },
    })
    this.#isPainted = false
    this.#isKept = false
    if (this.#form === 'popover') this.#behaveAsPopover(window)
    window.once('ready-to-show', () => {
      this.#isPainted = true
      if (this.#isWanted) this.#reveal(window)
    })
    window.on('closed', () => this.#closed(window))
    // The servers go on, so the app does: only the page is made anew.
    window.webContents.on('render-process-gone', (_event, { reason }) => this.#crashed(window, reason))
    this.#load(window, at)
    return window
  }

  #behaveAsPopover(window: BrowserWindow): void {
    // By default macOS would make an app with an icon in the Dock of it.
    window.setVisibleOnAllWorkspaces(true, { visibleOnFullScreen: true, skipTransformProcessType: true })
    window.on('blur', () => {
      if (this.#isAsking || !window.isVisible() || window.webContents.isDevToolsFocused()) return
      this.#hiddenByBlurAt = performance.now()
      this.hide()
    })
  }

  #closed(window: BrowserWindow): void {
    if (this.#window !== window) return
    clearTimeout(this.#grace)
    this.#window = undefined
    if (this.#form === 'popover') return
    this.#form = 'popover'
    app.dock?.hide()
  }

  #crashed(window: BrowserWindow, reason: string): void {
    if (window.isDestroyed()) return
    const { log, onProblem } = this.#options
    log.error('the window crashed', { reason })
    const wasWanted = this.#isWanted
    const isAgain = performance.now() - this.#crashedAt < crashLoopMs
    this.#crashedAt = performance.now()
    window.destroy()
    if (!isAgain) {
      if (wasWanted) this.show()
      return
    }
    this.#isWanted = false
    onProblem(
      'The window crashed twice within a minute and stays closed: Open Metalbar tries it again. What serves is not touched, and this menu does all that is needed.',
    )
  }

  /** Empty as it is, it shows that the click was heard; why it is empty is said by the menu. */
  #notLoaded(window: BrowserWindow, error: unknown): void {
    this.#options.log.error('the window did not load', { error })
    if (window.isDestroyed()) return
    this.#options.onProblem('The window did not load; the log of the app says why. This menu does all that is needed.')
    this.#isPainted = true
    if (this.#isWanted) this.#reveal(window)
  }

  #load(window: BrowserWindow, at: WindowPlace | undefined): void {
    const load = ++this.#loads
    window.loadURL(`${appUrl}${fragmentOf(at)}`).catch((error: unknown) => {
      // The next one ends a load that is under way.
      if (load === this.#loads) this.#notLoaded(window, error)
    })
  }
}

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
