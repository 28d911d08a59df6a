import type { BrowserContext, CDPSession, Page, Route } from 'playwright'
import { invoke } from './ipc-main.ts'
import { pageScript, preloadScript, receiveName, sendName, type FromApp, type ToApp } from './preload-script.ts'
import { answerFor, inside, isStandard, outside, privilegesOf } from './protocol.ts'
import type { WebContents } from './web-contents.ts'

/** Where the Chromium of the test listens for the DevTools protocol. */
export const chromiumVariable = 'ELECTRON_STAND_IN_CHROMIUM'

export interface OpenPage {
  goto(url: string): Promise<void>
  receive(channel: string, content: readonly unknown[]): Promise<void>
  focused(isFocused: boolean): Promise<void>
  close(): Promise<void>
}

let chromiumOfTest: Promise<BrowserContext> | undefined

async function connected(): Promise<BrowserContext> {
  const endpoint = process.env[chromiumVariable]
  if (endpoint === undefined) throw new Error(`A window needs Chromium: ${chromiumVariable} must name its endpoint.`)
  // Most apps of tests never show a window, and Playwright is most of what the stand-in loads.
  const { chromium } = await import('playwright')
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
  const session = await context.newCDPSession(page)
  followAddress(session, webContents)
  const tell = await preloadWorld(session, webContents, preload)
  const loading = await servePage(page, webContents)
  page.on('popup', (popup) => {
    if (webContents.openHandler?.({ url: popup.url() }).action === 'deny') void popup.close()
  })
  page.on('crash', () => webContents.emit('render-process-gone', {}, { reason: 'crashed' }))
  return {
    goto: async (url) => {
      const address = outside(url)
      loading.url = address
      try {
        await page.goto(address)
      } finally {
        if (loading.url === address) loading.url = ''
      }
    },
    receive: (channel, content) => tell({ channel, content }),
    focused: (isFocused) => tell({ isFocused }),
    close: () => page.close(),
  }
}

/** A new document, or another place in the one that is there. */
function followAddress(session: CDPSession, webContents: WebContents): void {
  session.on('Page.frameNavigated', ({ frame }) => {
    const url = frame.parentId === undefined ? inside(`${frame.url}${frame.urlFragment ?? ''}`) : undefined
    if (url !== undefined) webContents.navigated(url)
  })
  session.on('Page.navigatedWithinDocument', ({ url: address }) => {
    const url = inside(address)
    if (url !== undefined) webContents.navigatedInPage(url)
  })
}

const worldName = 'Electron Isolated Context'

/** Runs the preload script in a world of its own before any script of the page. Answers what tells it something. */
async function preloadWorld(
  session: CDPSession,
  webContents: WebContents,
  preload: string,
): Promise<(message: FromApp) => Promise<void>> {
  let world: string | undefined
  const tell = async (message: FromApp) => {
    if (world === undefined) return
    const expression = `${receiveName}(${JSON.stringify(JSON.stringify(message))})`
    // A page that goes meanwhile gets nothing more.
    await session.send('Runtime.evaluate', { expression, uniqueContextId: world }).catch(() => undefined)
  }
  const frames = await session.send('Page.getFrameTree')
  session.on('Runtime.executionContextCreated', ({ context: { name, uniqueId, auxData } }) => {
    const { frameId } = auxData as { readonly frameId?: string }
    if (name === worldName && frameId === frames.frameTree.frame.id) world = uniqueId
  })
  session.on('Runtime.bindingCalled', ({ payload }) => {
    const { id, channel, content } = JSON.parse(payload) as ToApp
    const event = { sender: webContents, senderFrame: webContents.mainFrame }
    invoke(event, channel, content).then(
      (value) => tell({ id, value }),
      (error: unknown) => tell({ id, error: String(error).replace(/^Error: /, '') }),
    )
  })
  await session.send('Page.enable')
  await session.send('Runtime.enable')
  await session.send('Runtime.addBinding', { name: sendName, executionContextName: worldName })
  await session.send('Page.addScriptToEvaluateOnNewDocument', { source: pageScript() })
  await session.send('Page.addScriptToEvaluateOnNewDocument', { source: preloadScript(preload), worldName })
  return tell
}

/** Answers where the address stands that the app itself goes to; every other is a navigation of the page. */
async function servePage(page: Page, webContents: WebContents): Promise<{ url: string }> {
  const loading = { url: '' }
  await page.route('**/*', async (route) => {
    const request = route.request()
    const url = inside(request.url())
    const isNavigation = request.isNavigationRequest() && request.frame() === page.mainFrame()
    const isOwn = isNavigation && request.url() === loading.url.split('#')[0]
    if (isNavigation && !isOwn && !webContents.mayNavigate(url ?? request.url())) await route.abort('aborted')
    else if (url === undefined || (!isOwn && !isAllowed(url, request.resourceType())))
      await route.abort('addressunreachable')
    else await fulfil(route, url)
  })
  return loading
}

/** What Chromium has a page load of a scheme with these privileges. */
const isAllowed = (url: string, resourceType: string): boolean =>
  isStandard(url) && (resourceType !== 'fetch' || privilegesOf(url).supportFetchAPI === true)

/** As the app answers it, under the policy that its scheme is under besides. */
async function fulfil(route: Route, url: string): Promise<void> {
  const { status, headers, body } = await plain(await answerFor(url, route.request().method()))
  await route.fulfill({ status, headers: underPrivileges(headers, url), body })
}

const policy = 'content-security-policy'

/** A page of a scheme that is not `standard` has an origin of its own, as one in a sandbox. */
function underPrivileges({ [policy]: own = '', ...headers }: Record<string, string>, url: string) {
  const policies = [
    ...(privilegesOf(url).bypassCSP === true || own === '' ? [] : [own]),
    ...(isStandard(url) ? [] : ['sandbox allow-scripts']),
  ]
  return policies.length === 0 ? headers : { ...headers, [policy]: policies.join(', ') }
}

export async function plain(response: Response) {
  return {
    status: response.status,
    headers: Object.fromEntries(response.headers),
    body: Buffer.from(await response.arrayBuffer()),
  }
}
