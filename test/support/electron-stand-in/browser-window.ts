import { EventEmitter } from 'node:events'
import { readFileSync } from 'node:fs'
import { app, PreventableEvent } from './app.ts'
import { openPage, type OpenPage } from './page.ts'
import type { Frame } from './ipc-main.ts'
import { originOf } from './protocol.ts'

interface Options {
  readonly width: number
  readonly height: number
  readonly frame?: boolean
  readonly webPreferences: Readonly<Record<string, unknown>> & { readonly preload: string }
}

type WindowOpenHandler = (details: { readonly url: string }) => { readonly action: string }

export class WebContents extends EventEmitter {
  mainFrame: Frame = { origin: 'null', url: 'about:blank' }
  openHandler: WindowOpenHandler | undefined
  page: Promise<OpenPage> | undefined

  isDevToolsFocused(): boolean {
    return false
  }

  setWindowOpenHandler(handler: WindowOpenHandler): void {
    this.openHandler = handler
  }

  /** One after the other, as a copy. */
  send(channel: string, ...content: unknown[]): void {
    const copy = structuredClone(content)
    void this.page?.then((page) => page.receive(channel, copy))
  }

  navigated(url: string): void {
    this.mainFrame = { url, origin: originOf(url) }
    this.emit('did-navigate', {}, url)
  }

  mayNavigate(url: string): boolean {
    const event = new PreventableEvent()
    this.emit('will-navigate', event, url)
    return !event.defaultPrevented
  }
}

export const windows = new Set<BrowserWindow>()

export class BrowserWindow extends EventEmitter {
  readonly options: Options
  readonly webContents = new WebContents()
  #loads = 0
  #isVisible = false
  #isDestroyed = false
  #position = { x: 0, y: 0 }

  constructor(options: Options) {
    super()
    this.options = options
    windows.add(this)
    app.emit('web-contents-created', {}, this.webContents)
  }

  static fromWebContents(webContents: WebContents): BrowserWindow | null {
    return [...windows].find((window) => window.webContents === webContents) ?? null
  }

  async loadURL(url: string): Promise<void> {
    const preload = readFileSync(this.options.webPreferences.preload, 'utf8')
    const load = ++this.#loads
    this.webContents.page ??= openPage(this.webContents, { ...this.options, preload })
    await (await this.webContents.page).goto(url)
    if (load !== this.#loads) throw new Error(`ERR_ABORTED (-3) loading '${url}'`)
    if (!this.#isDestroyed) this.emit('ready-to-show')
  }

  setVisibleOnAllWorkspaces(): void {
    // There is one.
  }

  setPosition(x: number, y: number): void {
    this.#position = { x, y }
  }

  show(): void {
    if (this.#isVisible) return
    this.#isVisible = true
    this.emit('show')
  }

  focus(): void {
    this.emit('focus')
  }

  hide(): void {
    if (!this.#isVisible) return
    this.#isVisible = false
    this.emit('hide')
  }

  isVisible(): boolean {
    return this.#isVisible
  }

  isDestroyed(): boolean {
    return this.#isDestroyed
  }

  close(): void {
    const event = new PreventableEvent()
    this.emit('close', event)
    if (!event.defaultPrevented) this.destroy()
  }

  destroy(): void {
    if (this.#isDestroyed) return
    this.#isDestroyed = true
    this.#isVisible = false
    windows.delete(this)
    void this.webContents.page?.then((page) => page.close())
    this.emit('closed')
  }

  get shown() {
    const { width, height, webPreferences } = this.options
    const { sandbox, contextIsolation, nodeIntegration } = webPreferences
    return {
      isVisible: this.#isVisible,
      bounds: { ...this.#position, width, height },
      hasFrame: this.options.frame !== false,
      webPreferences: { sandbox, contextIsolation, nodeIntegration },
      url: this.webContents.mainFrame.url,
    }
  }
}
