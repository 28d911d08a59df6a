import { throwsWhenDestroyed } from './destroyable.ts'
import { ElectronEmitter } from './electron-types.ts'
import type { Frame } from './ipc-main.ts'
import type { OpenPage } from './page.ts'
import { PreventableEvent } from './preventable-event.ts'
import { originOf } from './protocol.ts'

type WindowOpenHandler = (details: { readonly url: string }) => { readonly action: string }

export class WebContents extends ElectronEmitter {
  mainFrame: Frame = { origin: 'null', url: 'about:blank' }
  openHandler: WindowOpenHandler | undefined
  page: Promise<OpenPage> | undefined
  /** Messages so far. */
  sent = 0
  readonly #preferences: Readonly<Record<string, unknown>>
  #isDestroyed = false

  constructor(preferences: Readonly<Record<string, unknown>> = {}) {
    super('WebContents')
    this.#preferences = preferences
  }

  getLastWebPreferences(): Readonly<Record<string, unknown>> {
    return this.#preferences
  }

  getURL(): string {
    return this.mainFrame.url
  }

  forcefullyCrashRenderer(): void {
    setImmediate(() => this.emit('render-process-gone', {}, { reason: 'killed' }))
  }

  isDevToolsFocused(): boolean {
    return false
  }

  setWindowOpenHandler(handler: WindowOpenHandler): void {
    this.openHandler = handler
  }

  /** One after the other, as a copy. */
  send(channel: string, ...content: unknown[]): void {
    const copy = structuredClone(content)
    this.sent += 1
    this.#tell((page) => page.receive(channel, copy))
  }

  /** Has its page told, which nobody else hears. */
  focused(isFocused: boolean): void {
    this.#tell((page) => page.focused(isFocused))
  }

  isDestroyed(): boolean {
    return this.#isDestroyed
  }

  navigated(url: string): void {
    this.mainFrame = { url, origin: originOf(url) }
    this.emit('did-navigate', {}, url)
  }

  navigatedInPage(url: string): void {
    this.mainFrame = { url, origin: originOf(url) }
    this.emit('did-navigate-in-page', {}, url)
  }

  mayNavigate(url: string): boolean {
    const event = Object.assign(new PreventableEvent(), { url })
    this.emit('will-navigate', event)
    return !event.defaultPrevented
  }

  destroyed(): void {
    this.#tell((page) => page.close())
    this.#isDestroyed = true
    this.emit('destroyed')
  }

  /** One that could not be opened, or is gone, hears nothing. */
  #tell(say: (page: OpenPage) => Promise<void>): void {
    this.page?.then(say).catch(() => undefined)
  }
}

throwsWhenDestroyed(WebContents, ['navigated', 'navigatedInPage', 'mayNavigate'])
