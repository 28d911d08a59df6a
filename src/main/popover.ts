import { BrowserWindow, screen, type Rectangle } from 'electron'
import type { Logger } from '../agent-core/observability/logger.ts'
import { appUrl } from './app-scheme.ts'
import { isHidden, popoverPosition } from './popover-position.ts'

export interface PopoverOptions {
  readonly preload: string
  readonly log: Logger
  /** Where the icon is. */
  readonly icon: () => Rectangle
  /** How long a hidden window is kept before its memory is given back. */
  readonly graceMs?: number
}

const size = { width: 400, height: 620 }

/** A person who closes the window by mistake and opens it again within a minute finds it as it was. */
const defaultGraceMs = 60_000

/** A click on the icon takes the focus from the window, which hides it, and must not show it again. */
const sameClickMs = 150

/** The one window, under the icon; it exists only while it is open, and a while after. */
export class Popover {
  readonly #options: PopoverOptions
  #window: BrowserWindow | undefined
  #hiddenByBlurAt = -Infinity
  #grace: NodeJS.Timeout | undefined

  constructor(options: PopoverOptions) {
    this.#options = options
  }

  toggle(): void {
    if (this.#window?.isVisible() === true) this.#hide()
    else if (performance.now() - this.#hiddenByBlurAt >= sameClickMs) this.show()
  }

  show(): void {
    clearTimeout(this.#grace)
    const window = (this.#window ??= this.#create())
    const icon = this.#options.icon()
    const display = isHidden(icon)
      ? screen.getDisplayNearestPoint(screen.getCursorScreenPoint())
      : screen.getDisplayMatching(icon)
    const { x, y } = popoverPosition(icon, size, display.workArea)
    window.setPosition(x, y)
    window.show()
    window.focus()
  }

  #hide(): void {
    this.#window?.hide()
    clearTimeout(this.#grace)
    this.#grace = setTimeout(() => this.#window?.destroy(), this.#options.graceMs ?? defaultGraceMs)
  }

  #create(): BrowserWindow {
    const { preload, log } = this.#options
    const window = new BrowserWindow({
      ...size,
      title: 'Metalbar',
      show: false,
      frame: false,
      resizable: false,
      maximizable: false,
      minimizable: false,
      fullscreenable: false,
      skipTaskbar: true,
      hiddenInMissionControl: true,
      webPreferences: { preload, sandbox: true, contextIsolation: true, nodeIntegration: false, spellcheck: false },
    })
    // By default macOS would make an app with an icon in the Dock of it.
    window.setVisibleOnAllWorkspaces(true, { visibleOnFullScreen: true, skipTransformProcessType: true })
    window.on('blur', () => {
      if (window.webContents.isDevToolsFocused()) return
      this.#hiddenByBlurAt = performance.now()
      this.#hide()
    })
    window.on('closed', () => {
      clearTimeout(this.#grace)
      if (this.#window === window) this.#window = undefined
    })
    // The servers go on, so the app does: only the page is made anew.
    window.webContents.on('render-process-gone', (_event, { reason }) => {
      if (window.isDestroyed()) return
      log.error('the window crashed', { reason })
      const wasVisible = window.isVisible()
      window.destroy()
      if (wasVisible) this.show()
    })
    window.loadURL(appUrl).catch((error: unknown) => log.error('the window did not load', { error }))
    return window
  }
}
