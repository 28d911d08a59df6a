import { chromium, type BrowserContext, type Route } from 'playwright-core'
import type { WebContents } from './browser-window.ts'
import { invoke, type InvokeEvent } from './ipc-main.ts'
import { preloadScript } from './preload-script.ts'
import { answerFor, inside, outside } from './protocol.ts'

/** Where the Chromium of the test listens for the DevTools protocol. */
export const chromiumVariable = 'ELECTRON_STAND_IN_CHROMIUM'

export interface OpenPage {
  goto(url: string): Promise<void>
  receive(channel: string, content: readonly unknown[]): Promise<void>
  close(): Promise<void>
}

/** As `preload-script.ts` leaves it in the page. */
type Receiving = typeof globalThis & { electronReceive: (channel: string, content: readonly unknown[]) => void }

let chromiumOfTest: Promise<BrowserContext> | undefined

async function connected(): Promise<BrowserContext> {
  const endpoint = process.env[chromiumVariable]
  if (endpoint === undefined) throw new Error(`A window needs Chromium: ${chromiumVariable} must name its endpoint.`)
  const [context] = (await chromium.connectOverCDP(endpoint)).contexts()
  if (!context) throw new Error('Chromium has no default context.')
  return context
}

/** A window's page: served by the app's own protocol handlers, connected by the app's own preload script. */
export async function openPage(
  webContents: WebContents,
  { width, height, preload }: { readonly width: number; readonly height: number; readonly preload: string },
): Promise<OpenPage> {
  const context = await (chromiumOfTest ??= connected())
  const page = await context.newPage()
  await page.setViewportSize({ width, height })
  let loading = ''
  await page.exposeBinding('electronInvoke', async ({ frame }, channel: string, content: unknown[]) => {
    const senderFrame = frame === page.mainFrame() ? webContents.mainFrame : { url: frame.url(), origin: 'null' }
    const event: InvokeEvent = { sender: webContents, senderFrame }
    return invoke(event, channel, content)
  })
  await page.addInitScript({ content: preloadScript(preload) })
  await page.route('**/*', async (route) => {
    const request = route.request()
    const url = inside(request.url())
    const isNavigation = request.isNavigationRequest() && request.frame() === page.mainFrame()
    if (isNavigation && request.url() !== loading.split('#')[0] && !webContents.mayNavigate(url ?? request.url())) {
      await route.abort('aborted')
    } else if (url === undefined) await route.abort('addressunreachable')
    else await fulfil(route, url)
  })
  page.on('framenavigated', (frame) => {
    const url = frame === page.mainFrame() ? inside(frame.url()) : undefined
    if (url !== undefined) webContents.navigated(url)
  })
  page.on('popup', (popup) => {
    if (webContents.openHandler?.({ url: popup.url() }).action === 'deny') void popup.close()
  })
  page.on('crash', () => webContents.emit('render-process-gone', {}, { reason: 'crashed' }))
  return {
    goto: async (url) => {
      loading = outside(url)
      await page.goto(loading)
    },
    receive: async (channel, content) => {
      const receive = ([name, args]: readonly [string, readonly unknown[]]) => {
        ;(globalThis as Receiving).electronReceive(name, args)
      }
      // A page that goes meanwhile gets nothing more.
      await page.evaluate(receive, [channel, content] as const).catch(() => undefined)
    },
    close: () => page.close(),
  }
}

async function fulfil(route: Route, url: string): Promise<void> {
  const { status, headers, body } = await plain(await answerFor(url, route.request().method()))
  await route.fulfill({ status, headers, body })
}

export async function plain(response: Response) {
  return {
    status: response.status,
    headers: Object.fromEntries(response.headers),
    body: Buffer.from(await response.arrayBuffer()),
  }
}
