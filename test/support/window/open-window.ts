import { readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import type { BrowserContextOptions, Browser, Page } from 'playwright'
import type { AppBridge, AppState, RunLog } from '../../../src/contract/app-bridge.ts'
import type { Bridge, BridgeReply, LinkFailure } from '../../../src/contract/bridge.ts'
import { type AgentLink, LinkError, type Listener, type Unsubscribe } from '../../../src/contract/client.ts'
import { appVerbs, FakeApp, type AppVerb } from './fake-app.ts'

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
  readonly browser: Browser
  /** The built window. */
  readonly folder: string
  readonly agent: AgentLink
  readonly context?: BrowserContextOptions
  /** How the app beside its agent stands. */
  readonly appState?: Partial<AppState> | undefined
  /** Files that the page asks for and does not get. */
  readonly isMissing?: (file: string) => boolean
}

/** The built window in a page of its own, with the bridge that the app's preload would give it. */
export async function openWindow({
  browser,
  folder,
  agent,
  context = {},
  appState = {},
  isMissing = () => false,
}: WindowOptions): Promise<OpenWindow> {
  const browserContext = await browser.newContext({ viewport: { width: 400, height: 620 }, ...context })
  await browserContext.grantPermissions(['clipboard-read', 'clipboard-write'], { origin })
  const page = await browserContext.newPage()
  const complaints: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(String(error)))
  await page.route('**', async (route) => {
    const { pathname } = new URL(route.request().url())
    const file = pathname === '/' ? '/index.html' : pathname
    if (isMissing(file)) {
      await route.fulfill({ status: 404 })
      return
    }
    const body = (await readFile(join(folder, file))).toString().replaceAll('__CSP_NONCE__', nonce)
    await route.fulfill({
      body,
      headers: { 'content-type': contentTypes[extname(file)] ?? '', 'content-security-policy': policy },
    })
  })
  const app = new FakeApp()
  app.state = { ...app.state, ...appState }
  await connect(page, agent, app)
  await page.goto(`${origin}/`)
  const { revealed, kept } = app
  return { page, complaints, app, revealed, kept, [Symbol.asyncDispose]: () => browserContext.close() }
}

/** The functions that Playwright puts into the page, and those that the page gives it. */
interface Wires {
  agentCall(method: 'snapshot' | 'command' | 'query', args: unknown[]): Promise<BridgeReply<never>>
  agentWithdraw(id: string): Promise<BridgeReply<null>>
  agentOpen(id: number, method: 'follow' | 'stream', request?: unknown): Promise<void>
  agentClose(id: number): Promise<void>
  appDoes(verb: AppVerb, content: unknown): Promise<BridgeReply<never>>
  agentSays(id: number, item: { next: unknown } | { end: LinkFailure }): void
}

async function connect(page: Page, agent: AgentLink, app: FakeApp): Promise<void> {
  const open = new Map<number, Unsubscribe>()
  const asked = new Map<string, AbortController>()
  await page.exposeFunction('agentCall', ((method, args) =>
    reply(callOf(agent, asked, method, args))) satisfies Wires['agentCall'])
  await page.exposeFunction('agentWithdraw', ((id) => {
    asked.get(id)?.abort()
    return Promise.resolve({ ok: true, value: null })
  }) satisfies Wires['agentWithdraw'])
  await page.exposeFunction('agentClose', (id: number) => {
    open.get(id)?.()
    open.delete(id)
  })
  await page.exposeFunction('agentOpen', (id: number, method: 'follow' | 'stream', request: unknown) => {
    const say = (item: Parameters<Wires['agentSays']>[1]) => {
      page
        .evaluate(([to, what]) => (globalThis as unknown as Wires).agentSays(to, what), [id, item] as const)
        // A page that is being closed hears nothing any more.
        .catch(() => undefined)
    }
    const listener: Listener<unknown> = {
      next: (next) => say({ next }),
      end: ({ code, message }) => say({ end: { code, message } }),
    }
    open.set(id, method === 'follow' ? agent.follow(listener) : agent.stream(request as never, listener))
  })
  await page.exposeFunction('appDoes', ((verb, content) =>
    Promise.resolve(app.answer(verb, content) as BridgeReply<never>)) satisfies Wires['appDoes'])
  await page.addInitScript(bridgeInPage, appVerbs)
}

function callOf(
  agent: AgentLink,
  asked: Map<string, AbortController>,
  method: 'snapshot' | 'command' | 'query',
  args: unknown[],
): Promise<unknown> {
  switch (method) {
    case 'snapshot':
      return agent.snapshot()
    case 'command':
      return agent.command(...(args as Parameters<AgentLink['command']>))
    case 'query': {
      const [query, id] = args as Parameters<Bridge['query']>
      const leaving = new AbortController()
      asked.set(id, leaving)
      return agent.query(query, leaving.signal).finally(() => asked.delete(id))
    }
  }
}

async function reply(call: Promise<unknown>): Promise<BridgeReply<never>> {
  try {
    return { ok: true, value: (await call) as never }
  } catch (error) {
    if (!(error instanceof LinkError)) throw error
    return { ok: false, failure: { code: error.code, message: error.message } }
  }
}

/** Runs in the page, before its own scripts. */
function bridgeInPage(appVerbs: readonly AppVerb[]): void {
  const page = globalThis as unknown as Wires & { metalbar: Bridge }
  const listeners = new Map<number, { next: (item: never) => void; end: (failure: LinkFailure) => void }>()
  let lastId = 0
  const subscribe = (
    method: 'follow' | 'stream',
    listener: { next: (item: never) => void; end: (failure: LinkFailure) => void },
    request?: unknown,
  ) => {
    const id = (lastId += 1)
    listeners.set(id, listener)
    void page.agentOpen(id, method, request)
    return () => {
      if (listeners.delete(id)) void page.agentClose(id)
    }
  }
  page.agentSays = (id, item) => {
    const listener = listeners.get(id)
    if ('next' in item) listener?.next(item.next as never)
    else {
      listeners.delete(id)
      listener?.end(item.end)
    }
  }
  const app = Object.fromEntries(appVerbs.map((verb) => [verb, (content: unknown) => page.appDoes(verb, content)]))
  page.metalbar = {
    ...(app as unknown as AppBridge),
    follow: (next, end) => subscribe('follow', { next, end }),
    snapshot: () => page.agentCall('snapshot', []),
    command: (command, requestId) => page.agentCall('command', [command, requestId]),
    query: (query, id) => page.agentCall('query', [query, id]),
    withdraw: (id) => page.agentWithdraw(id),
    stream: (request, next, end) => subscribe('stream', { next, end }, request),
  }
}
