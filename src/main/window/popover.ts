import { app, BrowserWindow, type BrowserWindowConstructorOptions, nativeTheme, type Rectangle, screen } from 'electron'
import type { Logger } from '../../agent-core/observability/logger.ts'
import { appUrl } from './app-scheme.ts'
import { sharedWords } from '../../contract/words.ts'
import { DockIcon } from '../system/macos.ts'
import { displayOf, popoverPosition, withinReach } from './popover-position.ts'
import { fragmentOf, type WindowPlace } from './show-target.ts'
import { windowWords } from '../words.ts'

export interface PopoverOptions {
  readonly preload: string
  readonly log: Logger
  /** Where the icon is. */
  readonly icon: () => Rectangle
  /** Why the window can no longer be opened, as one sentence; undefined = it can. */
  readonly onProblem: (problem: string | undefined) => void
  /** Asks whether what a person wrote and nobody else has may be lost. */
  readonly mayLose: () => Promise<boolean>
}

/** A person who closes the window by mistake and opens it again within a minute finds it as it was. */
const graceMs = 60_000

/** A page that crashes twice so soon would do it for ever. */
const crashLoopMs = 60_000

/** A window that has no keys by then does not get them by itself, and would not lose them at a click elsewhere. */
const focusLimitMs = 300

/** How long macOS takes to lay out the menu bar after displays changed. */
const layoutMs = 300

/** A click on the icon takes the keys from the window. Electron reports both in either order, no further apart than this. */
const sameClickMs = 250

/** What a click on the icon means: one that has closed the window, since it took the keys from it, must not open it again. */
class IconClicks {
  #lostKeysAt = -Infinity
  #pressedAt = -Infinity
  /** Whether the window was open when the button went down; undefined = none did. It may stay down for long. */
  #wasOpen: boolean | undefined

  /** The window is about to be hidden since it lost the keys. */
  lostKeys(): void {
    this.#lostKeysAt = performance.now()
  }

  /** The window opens or closes. VoiceOver sends the click before the press, so an older press must not count for the next click. */
  windowChanges(): void {
    if (performance.now() - this.#pressedAt >= sameClickMs) this.#wasOpen = undefined
  }

  pressed(isOpen: boolean): void {
    this.#wasOpen = this.#isSame(isOpen)
    this.#pressedAt = performance.now()
  }

  /** Whether the click opens the window; else it closes it. */
  opens(isOpen: boolean): boolean {
    const wasOpen = this.#wasOpen ?? this.#isSame(isOpen)
    this.#wasOpen = undefined
    return !wasOpen
  }

  #isSame(isOpen: boolean): boolean {
    return isOpen || performance.now() - this.#lostKeysAt < sameClickMs
  }
}

/** The one window; it exists only while it is open, and a while after. */
export class Popover {
  readonly #options: PopoverOptions
  readonly #clicks = new IconClicks()
  readonly #dockIcon = new DockIcon()
  #window: BrowserWindow | undefined
  #form: Form = 'popover'
  /** Its page has been painted once. */
  #isPainted = false
  /** It was asked for, and is shown when it is painted. What the window says of it comes late, and not while others cover it. */
  #isWanted = false
  #isShown = false
  #shownAt = -Infinity
  #hasKeys = false
  #loads = 0
  #crashedAt = -Infinity
  /** Its page has what a person wrote and nobody else has. */
  #isKept = false
  /** Dialogs of the system that have the focus, and give it back. */
  #dialogs = 0
  #grace: NodeJS.Timeout | undefined
  #keysLimit: NodeJS.Timeout | undefined
  #layout: NodeJS.Timeout | undefined

  constructor(options: PopoverOptions) {
    this.#options = options
    // A window that never had the keyboard gets no blur event, so the app's own is followed too.
    app.on('did-resign-active', () => this.#leave())
    nativeTheme.on('updated', () => this.#window?.setBackgroundColor(ground()))
    screen.on('display-added', () => this.#displaysChanged())
    screen.on('display-removed', () => this.#displaysChanged())
    screen.on('display-metrics-changed', () => this.#displaysChanged())
  }

  /** The button went down on the icon. */
  pressed(): void {
    this.#clicks.pressed(this.#isOpen)
  }

  /** `icon`: where it was clicked. */
  toggle(icon?: Rectangle): void {
    if (this.#clicks.opens(this.#isOpen)) this.show(undefined, icon)
    else if (this.#form === 'popover') this.hide()
  }

  /** A person asks for it, so it is tried again although it crashed. */
  show(at?: WindowPlace, icon?: Rectangle): void {
    this.#clicks.windowChanges()
    clearTimeout(this.#grace)
    if (this.#form === 'window' && !this.#isWanted) this.#dockIcon.show()
    this.#isWanted = true
    this.#options.onProblem(undefined)
    const isNew = this.#window === undefined
    const window = (this.#window ??= this.#create(at))
    if (this.#form === 'popover') this.#place(window, icon)
    if (!isNew && at) this.#load(window, at)
    if (this.#isPainted) this.#reveal(window)
  }

  /** Turns to a place if the window still exists, visible or not. */
  turn(at: WindowPlace): void {
    if (this.#window) this.#load(this.#window, at)
  }

  get isTornOff(): boolean {
    return this.#form === 'window'
  }

  /** From now on a window of its own, until it is closed. */
  async tearOff(at?: WindowPlace): Promise<void> {
    if (this.#isKept && this.#form === 'popover' && !(await this.during(this.#options.mayLose))) {
      this.show()
      return
    }
    this.#showAsWindow(at)
  }

  /** A window of its own stays, as any other does. */
  escape(): void {
    if (this.#form === 'popover') this.hide()
  }

  hide(): void {
    this.#clicks.windowChanges()
    this.#notShown()
    if (this.#form === 'window' && !this.#isKept) {
      this.#window?.destroy()
      return
    }
    this.#window?.hide()
    if (this.#form === 'window') this.#dockIcon.hide()
    this.#awaitEnd()
  }

  /** While it is kept, it is hidden without an end. */
  keep(isKept: boolean): void {
    this.#isKept = isKept
    if (this.#window && !this.#isWanted) this.#awaitEnd()
  }

  /** A dialog takes the focus from the window, which it is asked by, and must not hide it. */
  async during<T>(dialog: () => Promise<T>): Promise<T> {
    this.#dialogs += 1
    try {
      return await dialog()
    } finally {
      this.#dialogs -= 1
      if (this.#dialogs === 0 && this.#isShown) this.#window?.focus()
    }
  }

  /** Whether it has the keys, by its page: a panel does not say so itself. */
  focused(hasKeys: boolean): void {
    if (hasKeys) {
      clearTimeout(this.#keysLimit)
      this.#hasKeys = true
      return
    }
    // Told late, it is of the time before it was shown again.
    const isOfBefore = !this.#hasKeys && performance.now() - this.#shownAt < focusLimitMs
    this.#hasKeys = false
    if (!isOfBefore) this.#leave()
  }

  /** Nothing holds up the end of the app. */
  end(): void {
    this.#window?.destroy()
  }

  get #isOpen(): boolean {
    return this.#isWanted && this.#form === 'popover'
  }

  /** The person has turned to another window. */
  #leave(): void {
    if (this.#dialogs > 0 || !this.#isOpen || !this.#isShown) return
    if (this.#window?.webContents.isDevToolsFocused() === true) return
    this.#clicks.lostKeys()
    this.hide()
  }

  #awaitEnd(): void {
    clearTimeout(this.#grace)
    if (!this.#isKept) this.#grace = setTimeout(() => this.#window?.destroy(), graceMs)
  }

  #showAsWindow(at?: WindowPlace): void {
    if (this.#form === 'popover') this.#window?.destroy()
    this.#form = 'window'
    this.show(at)
  }

  #place(window: BrowserWindow, clicked: Rectangle | undefined): void {
    putUnderIcon(window, [...(clicked ? [clicked] : []), this.#options.icon()])
  }

  #displaysChanged(): void {
    clearTimeout(this.#layout)
    this.#layout = setTimeout(() => {
      if (!this.#window) return
      if (this.#form === 'window') bringWithinReach(this.#window)
      else if (this.#isOpen) this.#place(this.#window, undefined)
    }, layoutMs)
  }

  #reveal(window: BrowserWindow): void {
    if (!this.#isShown) {
      this.#isShown = true
      this.#shownAt = performance.now()
      this.#hasKeys = false
      if (this.#form === 'popover') this.#keysLimit = setTimeout(() => this.#takeKeys(window), focusLimitMs)
    }
    window.show()
    window.focus()
  }

  /** As the active app; then macOS tells at least when another one is. */
  #takeKeys(window: BrowserWindow): void {
    app.focus({ steal: true })
    window.focus()
  }

  #notShown(): void {
    this.#isWanted = false
    this.#isShown = false
    clearTimeout(this.#keysLimit)
  }

  #create(at: WindowPlace | undefined): BrowserWindow {
    const window = newWindow(this.#form, this.#options.preload)
    this.#isPainted = false
    if (this.#form === 'popover') this.#behaveAsPopover(window)
    window.once('ready-to-show', () => {
      this.#isPainted = true
      if (this.#isWanted) this.#reveal(window)
    })
    window.on('close', (event) => {
      event.preventDefault()
      this.hide()
    })
    window.on('closed', () => this.#closed(window))
    // A page that is loaded again has lost what a person wrote in it.
    window.webContents.on('did-navigate', () => this.keep(false))
    // The servers keep running, and the app with them: only the page is created again.
    window.webContents.on('render-process-gone', (_event, { reason }) => this.#crashed(window, reason))
    this.#load(window, at)
    return window
  }

  #behaveAsPopover(window: BrowserWindow): void {
    window.on('focus', () => this.focused(true))
    window.on('blur', () => this.focused(false))
  }

  #closed(window: BrowserWindow): void {
    if (this.#window !== window) return
    clearTimeout(this.#grace)
    this.#notShown()
    this.#window = undefined
    this.#isKept = false
    if (this.#form === 'popover') return
    this.#form = 'popover'
    this.#dockIcon.hide()
  }

  #crashed(window: BrowserWindow, reason: string): void {
    if (window.isDestroyed()) return
    const { log, onProblem } = this.#options
    log.error('the window crashed', { reason })
    const before = this.#isWanted ? this.#form : undefined
    const isAgain = performance.now() - this.#crashedAt < crashLoopMs
    this.#crashedAt = performance.now()
    window.destroy()
    if (!isAgain) {
      if (before === 'popover') this.show()
      else if (before) this.#showAsWindow()
      return
    }
    onProblem(windowWords.crashed)
  }

  /** Empty as it is, it shows that the click was heard; why it is empty is said by the menu. */
  #notLoaded(window: BrowserWindow, error: unknown): void {
    if (window.isDestroyed()) return
    this.#options.log.error('the window did not load', { error })
    this.#options.onProblem(windowWords.notLoaded)
    this.#isPainted = true
    if (this.#isWanted) this.#reveal(window)
  }

  #load(window: BrowserWindow, at: WindowPlace | undefined): void {
    const load = ++this.#loads
    window.loadURL(addressOf(at, load)).catch((error: unknown) => {
      // The next one ends a load that is under way.
      if (load === this.#loads) this.#notLoaded(window, error)
    })
  }
}

/** Under the first of these that is in a menu bar; in the corner of the display that a person works on where none is. */
export function putUnderIcon(window: BrowserWindow, icons: readonly Rectangle[]): void {
  const displays = screen.getAllDisplays()
  const icon = icons.find((one) => displayOf(one, displays) !== undefined)
  const display = (icon && displayOf(icon, displays)) ?? screen.getDisplayNearestPoint(screen.getCursorScreenPoint())
  const { x, y } = popoverPosition(icon, windowSize, display.workArea)
  window.setPosition(x, y)
}

/** Into the nearest display that is there, where macOS has not moved it itself. */
export function bringWithinReach(window: BrowserWindow): void {
  const displays = screen.getAllDisplays()
  // With the lid closed and nothing plugged in there may be none for a while.
  if (displays.length === 0) return
  const bounds = window.getBounds()
  const place = withinReach(bounds, displays, screen.getDisplayMatching(bounds).workArea)
  if (place) window.setBounds(place)
}

/** `popover`: under the icon, until a person looks elsewhere. `window`: as any other, with an icon in the Dock. */
export type Form = 'popover' | 'window'

export const windowSize = { width: 400, height: 620 }

/** Nothing is seen of it before it is painted. */
export function newWindow(form: Form, preload: string): BrowserWindow {
  const window = new BrowserWindow({
    ...windowSize,
    title: sharedWords.app,
    show: false,
    backgroundColor: ground(),
    ...forms[form],
    webPreferences: { preload, sandbox: true, contextIsolation: true, nodeIntegration: false, spellcheck: false },
  })
  // Else Electron decides here whether the app has an icon in the Dock, which is for DockIcon to do.
  const spaces = { visibleOnFullScreen: true, skipTransformProcessType: true }
  if (form === 'popover') window.setVisibleOnAllWorkspaces(true, spaces)
  return window
}

/** The page's own, so that nothing flashes before it is painted. */
export const ground = (): string => (nativeTheme.shouldUseDarkColors ? '#1c1c1f' : '#f3f3f5')

/** `turn`: another one each time, since an address that differs in nothing would load the page again. */
export const addressOf = (at: WindowPlace | undefined, turn: number): string =>
  at ? `${appUrl}${fragmentOf(at)}?${turn}` : appUrl

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
