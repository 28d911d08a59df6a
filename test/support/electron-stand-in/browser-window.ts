import { readFileSync } from 'node:fs'
import { app } from './app.ts'
import { ClosableWindow } from './closable-window.ts'
import { throwsWhenDestroyed } from './destroyable.ts'
import { refuseUnknown, wholeNumber } from './electron-types.ts'
import { openPage } from './page.ts'
import { screen, type Rectangle } from './screen.ts'
import { WebContents } from './web-contents.ts'
import { focusedWindow, windows } from './windows.ts'

interface Options {
  readonly width: number
  readonly height: number
  readonly frame?: boolean
  readonly show?: boolean
  readonly type?: string
  readonly backgroundColor?: string
  readonly webPreferences: Readonly<Record<string, unknown>> & { readonly preload: string }
}

interface SpacesOptions {
  readonly visibleOnFullScreen?: boolean
  readonly skipTransformProcessType?: boolean
}

/** So long the window server takes to show or hide a window, and only then says so. */
const windowServerMs = 20

export class BrowserWindow extends ClosableWindow {
  readonly options: Options
  readonly #webContents: WebContents
  #loads = 0
  /** Ordered in front by the app. */
  #isOrdered = false
  #isSeen = false
  /** Wholly behind others, or on another space. */
  #isOccluded = false
  #isFocused = false
  #bounds: Rectangle
  #background: string
  /** On all spaces, also over apps that fill the screen. */
  #isEverywhere = false

  constructor(options: Options) {
    super('BrowserWindow')
    app.mustBeReady('Cannot create BrowserWindow')
    refuseUnknown('BrowserWindowConstructorOptions', options)
    refuseUnknown('WebPreferences', options.webPreferences)
    wholeNumber(options.width, 0)
    wholeNumber(options.height, 0)
    if (!['desktop', 'textured', 'panel', undefined].includes(options.type)) {
      throw new TypeError(`macOS has no windows of type ${String(options.type)}`)
    }
    this.options = options
    this.#bounds = middleOf(screen.getDisplayNearestPoint({ x: 0, y: 0 }).workArea, options)
    this.#background = options.backgroundColor ?? '#FFF'
    this.#webContents = new WebContents(options.webPreferences)
    windows.add(this)
    app.windows.add(this)
    app.emit('web-contents-created', {}, this.webContents)
    if (options.show !== false) this.show()
  }

  static fromWebContents(webContents: WebContents): BrowserWindow | null {
    return [...windows].find((window) => window.webContents === webContents) ?? null
  }

  static getAllWindows(): readonly BrowserWindow[] {
    return [...windows]
  }

  static getFocusedWindow(): BrowserWindow | null {
    return focusedWindow() ?? null
  }

  get webContents(): WebContents {
    return this.#webContents
  }

  async loadURL(url: string): Promise<void> {
    const preload = readFileSync(this.options.webPreferences.preload, 'utf8')
    const load = ++this.#loads
    this.webContents.page ??= openPage(this.webContents, { ...this.options, preload })
    await (await this.webContents.page).goto(url)
    if (load !== this.#loads) throw new Error(`ERR_ABORTED (-3) loading '${url}'`)
    if (!this.isDestroyed()) this.emit('ready-to-show')
  }

  /** Electron hides or shows the icon in the Dock besides, unless it is told not to. */
  setVisibleOnAllWorkspaces(isVisible: boolean, options: SpacesOptions = {}): void {
    refuseUnknown('VisibleOnAllWorkspacesOptions', options)
    const { visibleOnFullScreen = false, skipTransformProcessType = false } = options
    this.#isEverywhere = isVisible && visibleOnFullScreen
    if (skipTransformProcessType) return
    if (visibleOnFullScreen) app.dock.hide()
    else void app.dock.show()
  }

  setPosition(x: number, y: number): void {
    this.#bounds = { ...this.#bounds, x: wholeNumber(x, 0), y: wholeNumber(y, 1) }
  }

  setBounds(bounds: Partial<Rectangle>): void {
    for (const side of ['x', 'y', 'width', 'height'] as const) wholeNumber(bounds[side] ?? 0, 0)
    this.#bounds = { ...this.#bounds, ...bounds }
  }

  setBackgroundColor(color: string): void {
    this.#background = color
  }

  /** Makes the app the active one, a panel aside. */
  show(): void {
    this.#isOrdered = true
    if (!this.#isPanel && app.mayActivate) app.activated()
    this.#takeFocus()
    this.#tellLater()
  }

  focus(): void {
    if (this.#isOrdered) this.#takeFocus()
  }

  hide(): void {
    this.#isOrdered = false
    this.loseFocus()
    this.#tellLater()
  }

  /** Gives the keys to another window. */
  blur(): void {
    this.loseFocus()
  }

  getBounds() {
    return this.shown.bounds
  }

  /** Without what is around the page: a title bar, here of 28 points. */
  getContentBounds() {
    const { bounds, hasFrame } = this.shown
    return hasFrame ? { ...bounds, height: bounds.height - 28 } : bounds
  }

  getBackgroundColor(): string {
    return this.#background.toUpperCase()
  }

  isVisible(): boolean {
    return this.#isSeen
  }

  /** Whether the app ordered it in front. */
  get isShown(): boolean {
    return this.#isOrdered
  }

  isFocused(): boolean {
    return this.#isFocused
  }

  override destroy(): void {
    this.#webContents.destroyed()
    this.#isSeen = false
    this.#isFocused = false
    windows.delete(this)
    super.destroy()
  }

  /** As when others cover all of it. */
  occlude(isOccluded: boolean): void {
    this.#isOccluded = isOccluded
    this.#tell()
  }

  /** To a window of another app, or of this one. A panel says so to its page alone. */
  loseFocus(): void {
    if (!this.#isFocused) return
    this.#isFocused = false
    if (!this.#isPanel) this.emit('blur')
    this.webContents.focused(false)
  }

  #takeFocus(): void {
    if (this.#isFocused || !app.mayFocus) return
    for (const other of windows) other.loseFocus()
    this.#isFocused = true
    if (!this.#isPanel) this.emit('focus')
    this.webContents.focused(true)
  }

  get #isPanel(): boolean {
    return this.options.type === 'panel'
  }

  #tellLater(): void {
    setTimeout(() => {
      if (!this.isDestroyed()) this.#tell()
    }, windowServerMs)
  }

  #tell(): void {
    const isSeen = this.#isOrdered && !this.#isOccluded
    if (isSeen === this.#isSeen) return
    this.#isSeen = isSeen
    this.emit(isSeen ? 'show' : 'hide')
  }

  get shown() {
    const { type, webPreferences } = this.options
    const { sandbox, contextIsolation, nodeIntegration } = webPreferences
    return {
      isVisible: this.#isSeen,
      bounds: this.#bounds,
      hasFrame: this.options.frame !== false,
      isPanel: type === 'panel',
      isEverywhere: this.#isEverywhere,
      background: this.#background,
      webPreferences: { sandbox, contextIsolation, nodeIntegration },
      url: this.webContents.mainFrame.url,
      sent: this.webContents.sent,
    }
  }
}

/** Where Electron puts a window that is not told where. */
const middleOf = (area: Rectangle, { width, height }: Options): Rectangle => ({
  x: Math.round(area.x + (area.width - width) / 2),
  y: Math.round(area.y + (area.height - height) / 2),
  width,
  height,
})

throwsWhenDestroyed(BrowserWindow)
