import type { Page } from 'playwright'
import type { AppBridge, Bridge, BridgeReply } from '../../../src/contract/app-bridge.ts'
import type { LinkFailure } from '../../../src/contract/client.ts'
import { type AgentLink, LinkError, type Listener, type Unsubscribe } from '../../../src/contract/client.ts'
import { appVerbs, type FakeApp, type AppVerb } from './fake-app.ts'

/** Whom the document of a page speaks to, and what it waits for. */
export class OtherEnd {
  readonly agent: AgentLink
  readonly app: FakeApp
  readonly open = new Map<string, Unsubscribe>()
  readonly asked = new Map<string, AbortController>()

  constructor(agent: AgentLink, app: FakeApp) {
    this.agent = agent
    this.app = app
  }

  /** The document is gone. */
  leave(): void {
    for (const unsubscribe of this.open.values()) unsubscribe()
    this.open.clear()
  }
}

/** The functions that Playwright puts into the page, and those that the page gives it. */
interface Wires {
  agentCall(method: 'snapshot' | 'command' | 'query', args: unknown[]): Promise<BridgeReply<never>>
  agentWithdraw(id: string): Promise<BridgeReply<null>>
  agentOpen(id: string, method: 'follow' | 'stream', request?: unknown): Promise<void>
  agentClose(id: string): Promise<void>
  appDoes(verb: AppVerb, content: unknown): Promise<BridgeReply<never>>
  agentSays(id: string, item: { next: unknown } | { end: LinkFailure }): void
}

/** Gives a page the bridge that the app's preload would give it. `otherEnd`: that of the document which is there, if any. */
export async function wire(page: Page, otherEnd: () => OtherEnd | undefined): Promise<void> {
  const present = () => {
    const end = otherEnd()
    if (end === undefined) throw new Error('Nobody speaks to this page.')
    return end
  }
  await page.exposeFunction('agentCall', ((method, args) =>
    reply(callOf(present(), method, args))) satisfies Wires['agentCall'])
  await page.exposeFunction('agentWithdraw', ((id) => {
    otherEnd()?.asked.get(id)?.abort()
    return Promise.resolve({ ok: true, value: null })
  }) satisfies Wires['agentWithdraw'])
  await page.exposeFunction('agentClose', (id: string) => {
    const open = otherEnd()?.open
    open?.get(id)?.()
    open?.delete(id)
  })
  await page.exposeFunction('agentOpen', (id: string, method: 'follow' | 'stream', request: unknown) => {
    const end = present()
    const say = (item: Parameters<Wires['agentSays']>[1]) => {
      if (otherEnd() !== end) return
      page
        .evaluate(([to, what]) => (globalThis as unknown as Wires).agentSays(to, what), [id, item] as const)
        // A page that is being closed hears nothing any more.
        .catch(() => undefined)
    }
    const listener: Listener<unknown> = {
      next: (next) => say({ next }),
      end: ({ code, message }) => say({ end: { code, message } }),
    }
    const { agent, open } = end
    open.set(id, method === 'follow' ? agent.follow(listener) : agent.stream(request as never, listener))
  })
  await page.exposeFunction('appDoes', ((verb, content) =>
    Promise.resolve(present().app.answer(verb, content) as BridgeReply<never>)) satisfies Wires['appDoes'])
  await page.addInitScript(bridgeInPage, appVerbs)
}

function callOf(
  { agent, asked }: OtherEnd,
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
  const listeners = new Map<string, { next: (item: never) => void; end: (failure: LinkFailure) => void }>()
  const subscribe = (
    method: 'follow' | 'stream',
    listener: { next: (item: never) => void; end: (failure: LinkFailure) => void },
    request?: unknown,
  ) => {
    // No other document of the tab may hear it.
    const id = crypto.randomUUID()
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
