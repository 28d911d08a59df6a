import type { Browser, BrowserContextOptions, Page } from 'playwright'
import type { AppState } from '../../../src/contract/app-state.ts'
import type { AgentLink } from '../../../src/contract/client.ts'
import { FakeApp } from './fake-app.ts'
import { emptyPage } from './serve-window.ts'
import { OtherEnd, wire } from './wires.ts'

export interface OpenWindow extends AsyncDisposable {
  readonly page: Page
  /** What the page logged, threw, or was refused by the policy. */
  readonly complaints: readonly string[]
  readonly app: FakeApp
  /** Logs whose files the app was asked to show. */
  readonly revealed: readonly unknown[]
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

/** A tab of the browser, with nothing in it or the window of one agent. */
interface Tab {
  readonly page: Page
  shown?: { readonly otherEnd: OtherEnd; readonly complaints: string[] } | undefined
}

/**
 * The built window in pages with the bridge that the app's preload would give it. A new tab starts a process and compiles the window's
 * scripts, so one whose window is closed is used again, with a new document, size and wishes.
 */
export class WindowPages {
  readonly #browser: Browser
  readonly #origin: string
  readonly #scale: number
  readonly #free: Tab[] = []

  /** `origin`: where the built window is served. `scale`: device pixels for each CSS pixel. */
  constructor(browser: Browser, origin: string, scale = 1) {
    this.#browser = browser
    this.#origin = origin
    this.#scale = scale
  }

  async open({ agent, size, wishes, appState, isMissing }: WindowOptions): Promise<OpenWindow> {
    const tab = this.#free.pop() ?? (await this.#newTab())
    const app = new FakeApp()
    app.state = { ...app.state, ...appState }
    const complaints: string[] = []
    tab.shown = { otherEnd: new OtherEnd(agent, app), complaints }
    const { page } = tab
    await page.setViewportSize(size ?? { width: 400, height: 620 })
    await page.emulateMedia({ ...noWishes, ...wishes })
    if (isMissing !== undefined) {
      await page.route('**', (route) =>
        isMissing(new URL(route.request().url()).pathname) ? route.fulfill({ status: 404 }) : route.continue(),
      )
    }
    await page.goto(`${this.#origin}/`)
    const { revealed, kept } = app
    return { page, complaints, app, revealed, kept, [Symbol.asyncDispose]: () => this.#clear(tab) }
  }

  async #newTab(): Promise<Tab> {
    const context = await this.#browser.newContext({ deviceScaleFactor: this.#scale })
    await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: this.#origin })
    const page = await context.newPage()
    const tab: Tab = { page }
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') tab.shown?.complaints.push(message.text())
    })
    page.on('pageerror', (error) => tab.shown?.complaints.push(String(error)))
    await wire(page, () => tab.shown?.otherEnd)
    return tab
  }

  /** Its window is gone, and what it last pointed at. */
  async #clear(tab: Tab): Promise<void> {
    tab.shown?.otherEnd.leave()
    tab.shown = undefined
    await tab.page.mouse.move(-1, -1)
    await tab.page.unrouteAll()
    await tab.page.goto(`${this.#origin}${emptyPage}`)
    this.#free.push(tab)
  }
}
