import { readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import type { Browser, BrowserContextOptions, Page, Route } from 'playwright'
import type { AppState, RunLog } from '../../../src/contract/app-bridge.ts'
import type { AgentLink } from '../../../src/contract/client.ts'
import { FakeApp } from './fake-app.ts'
import { type OtherEnd, wire } from './wires.ts'

/** Nothing listens there: every request is answered from the folder. Loopback, so that the page may use the clipboard. */
const origin = 'http://127.0.0.1:1'

const nonce = 'bm9uY2U'

/** What the app's own carrier answers with; nothing may be loaded from elsewhere, nothing inline may run. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  `style-src 'self' 'nonce-${nonce}'`,
  "img-src 'self' data:",
  "connect-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const contentTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

export interface OpenWindow extends AsyncDisposable {
  readonly page: Page
  /** What the page logged, threw, or was refused by the policy. */
  readonly complaints: readonly string[]
  readonly app: FakeApp
  /** Logs whose files the app was asked to show. */
  readonly revealed: readonly RunLog[]
  /** What the page said in turn about whether it has what must not be lost. */
  readonly kept: readonly boolean[]
}

export interface WindowOptions {
  readonly agent: AgentLink
  readonly size?: { readonly width: number; readonly height: number }
  /** What a person asked their system for. */
  readonly wishes?: Wishes
  /** How the app beside its agent stands. */
  readonly appState?: Partial<AppState> | undefined
  /** Files that the page asks for and does not get. */
  readonly isMissing?: (file: string) => boolean
}

export type Wishes = Pick<BrowserContextOptions, 'colorScheme' | 'reducedMotion' | 'contrast' | 'forcedColors'>

const noWishes = {
  colorScheme: 'light',
  reducedMotion: 'no-preference',
  contrast: 'no-preference',
  forcedColors: 'none',
} as const satisfies Wishes

/** Between two windows. */
const emptyPage = '/empty'

interface Shown extends OtherEnd {
  readonly complaints: string[]
  readonly isMissing: (file: string) => boolean
}

/** A tab of the browser, with nothing in it or the window of one agent. */
interface Tab {
  readonly page: Page
  shown?: Shown | undefined
}

/**
 * The built window in pages with the bridge that the app's preload would give it. A new tab starts a process and compiles the window's
 * scripts, so one whose window is closed is used again, with a new document, size and wishes.
 */
export class WindowPages {
  readonly #browser: Browser
  readonly #folder: string
  readonly #scale: number
  readonly #free: Tab[] = []
  readonly #files = new Map<string, Promise<string>>()

  /** `folder`: with the built window. `scale`: device pixels for each CSS pixel. */
  constructor(browser: Browser, folder: string, scale = 1) {
    this.#browser = browser
    this.#folder = folder
    this.#scale = scale
  }

  async open({ agent, size, wishes, appState, isMissing = () => false }: WindowOptions): Promise<OpenWindow> {
    const tab = this.#free.pop() ?? (await this.#newTab())
    const app = new FakeApp()
    app.state = { ...app.state, ...appState }
    const complaints: string[] = []
    tab.shown = { agent, app, complaints, isMissing }
    const { page } = tab
    await page.setViewportSize(size ?? { width: 400, height: 620 })
    await page.emulateMedia({ ...noWishes, ...wishes })
    await page.goto(`${origin}/`)
    const { revealed, kept } = app
    return { page, complaints, app, revealed, kept, [Symbol.asyncDispose]: () => this.#clear(tab) }
  }

  async #newTab(): Promise<Tab> {
    const context = await this.#browser.newContext({ deviceScaleFactor: this.#scale })
    await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin })
    const page = await context.newPage()
    const tab: Tab = { page }
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') tab.shown?.complaints.push(message.text())
    })
    page.on('pageerror', (error) => tab.shown?.complaints.push(String(error)))
    await page.route('**', (route) => this.#answer(route, tab))
    await wire(page, () => tab.shown)
    return tab
  }

  async #answer(route: Route, { shown }: Tab): Promise<void> {
    const { pathname } = new URL(route.request().url())
    const file = pathname === '/' ? '/index.html' : pathname
    if (file === emptyPage) await route.fulfill({ body: '', contentType: 'text/html' })
    else if (shown?.isMissing(file) === true) await route.fulfill({ status: 404 })
    else {
      await route.fulfill({
        body: await this.#read(file),
        headers: { 'content-type': contentTypes[extname(file)] ?? '', 'content-security-policy': policy },
      })
    }
  }

  #read(file: string): Promise<string> {
    const read =
      this.#files.get(file) ??
      readFile(join(this.#folder, file), 'utf8').then((text) => text.replaceAll('__CSP_NONCE__', nonce))
    this.#files.set(file, read)
    return read
  }

  /** Its window is gone, and what it last pointed at. */
  async #clear(tab: Tab): Promise<void> {
    tab.shown = undefined
    await tab.page.mouse.move(-1, -1)
    await tab.page.goto(`${origin}${emptyPage}`)
    this.#free.push(tab)
  }
}
