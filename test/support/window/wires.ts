import type { Page } from 'playwright'
import type { AppVerb, Bridge, BridgeReply, ListenInput, Verb } from '../../../src/contract/app-bridge.ts'
import type { LinkFailure } from '../../../src/contract/client.ts'
import { type AgentLink, LinkError, type Listener, type Unsubscribe } from '../../../src/contract/client.ts'
import type { CommandRequest } from '../../../src/contract/commands.ts'
import type { Query } from '../../../src/contract/queries.ts'
import type { FakeApp } from './fake-app.ts'

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

/** The functions that Playwright puts into the page, and the one that the page gives it. */
interface Wires {
  asks(verb: Verb, content: unknown): Promise<BridgeReply<never>>
  listens(id: string, request: ListenInput): Promise<void>
  leaves(id: string): Promise<void>
  says(id: string, item: { next: unknown } | { end: LinkFailure }): void
}

/** Gives a page the bridge that the app's preload would give it. `otherEnd`: that of the document which is there, if any. */
export async function wire(page: Page, otherEnd: () => OtherEnd | undefined): Promise<void> {
  const present = () => {
    const end = otherEnd()
    if (end === undefined) throw new Error('Nobody speaks to this page.')
    return end
  }
  await page.exposeFunction('asks', ((verb, content) => {
    const { agent, app, asked } = present()
    switch (verb) {
      case 'snapshot':
        return reply(agent.snapshot())
      case 'command': {
        const { command, requestId } = content as CommandRequest
        return reply(agent.command(command, requestId))
      }
      case 'query': {
        const { id, query } = content as { readonly id: string; readonly query: Query }
        const leaving = new AbortController()
        asked.set(id, leaving)
        return reply(agent.query(query, leaving.signal).finally(() => asked.delete(id)))
      }
      case 'withdraw':
        asked.get((content as { readonly id: string }).id)?.abort()
        return reply(Promise.resolve())
      default:
        return Promise.resolve(app.answer(verb as AppVerb, content) as BridgeReply<never>)
    }
  }) satisfies Wires['asks'])
  await page.exposeFunction('leaves', (id: string) => {
    const open = otherEnd()?.open
    open?.get(id)?.()
    open?.delete(id)
  })
  await page.exposeFunction('listens', (id: string, request: ListenInput) => {
    const end = present()
    const say = (item: Parameters<Wires['says']>[1]) => {
      if (otherEnd() !== end) return
      page
        .evaluate(([to, what]) => (globalThis as unknown as Wires).says(to, what), [id, item] as const)
        // A page that is being closed hears nothing any more.
        .catch(() => undefined)
    }
    const listener: Listener<unknown> = {
      next: (next) => say({ next }),
      end: ({ code, message }) => say({ end: { code, message } }),
    }
    const { agent, open } = end
    open.set(id, request.name === 'snapshot' ? agent.follow(listener) : agent.stream(request, listener))
  })
  await page.addInitScript(bridgeInPage)
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
function bridgeInPage(): void {
  const page = globalThis as unknown as Wires & { metalbar: Bridge }
  const listeners = new Map<string, { next: (item: never) => void; end: (failure: LinkFailure) => void }>()
  page.says = (id, item) => {
    const listener = listeners.get(id)
    if ('next' in item) listener?.next(item.next as never)
    else {
      listeners.delete(id)
      listener?.end(item.end)
    }
  }
  page.metalbar = {
    ask: (verb, content?: unknown) => page.asks(verb, content),
    listen(request, next, end) {
      // No other document of the tab may hear it.
      const id = crypto.randomUUID()
      listeners.set(id, { next, end })
      void page.listens(id, request)
      return () => {
        if (listeners.delete(id)) void page.leaves(id)
      }
    },
  }
}
