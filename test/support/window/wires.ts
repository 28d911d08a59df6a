import type { Page } from 'playwright'
import type { Bridge, BridgeReply, Push, Said, Verb } from '../../../src/contract/app-bridge.ts'
import { type AgentLink, LinkError, type Listener, type Unsubscribe } from '../../../src/contract/client.ts'
import type { StreamItem } from '../../../src/contract/log.ts'
import type { AgentSnapshot } from '../../../src/contract/snapshot.ts'
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

/** The function that Playwright puts into the page, and the one that the page gives it. */
interface Wires {
  asks(verb: Verb, content: unknown): Promise<BridgeReply<never>>
  says(push: Push): void
}

/** Gives a page the bridge that the app's preload would give it. `otherEnd`: that of the document which is there, if any. */
export async function wire(page: Page, otherEnd: () => OtherEnd | undefined): Promise<void> {
  const present = () => {
    const end = otherEnd()
    if (end === undefined) throw new Error('Nobody speaks to this page.')
    return end
  }
  const listen = ({ id, request }: Said<'listen'>) => {
    const end = present()
    const say = (push: Push) => {
      if (otherEnd() !== end) return
      page
        .evaluate((what) => (globalThis as unknown as Wires).says(what), push)
        // A page that is being closed hears nothing any more.
        .catch(() => undefined)
    }
    const listener: Listener<AgentSnapshot | StreamItem> = {
      next: (item) => say({ id, item }),
      end: ({ code, message }) => say({ id, failure: { code, message } }),
    }
    const { agent, open } = end
    open.set(id, request.name === 'snapshot' ? agent.follow(listener) : agent.stream(request, listener))
  }
  await page.exposeFunction('asks', ((verb, content) => {
    const { agent, app, asked, open } = present()
    switch (verb) {
      case 'snapshot':
        return reply(agent.snapshot())
      case 'command': {
        const { command, requestId } = content as Said<'command'>
        return reply(agent.command(command, requestId))
      }
      case 'query': {
        const { id, query } = content as Said<'query'>
        const leaving = new AbortController()
        asked.set(id, leaving)
        return reply(agent.query(query, leaving.signal).finally(() => asked.delete(id)))
      }
      case 'listen':
        listen(content as Said<'listen'>)
        return reply(Promise.resolve())
      case 'leave': {
        const { id } = content as Said<'leave'>
        asked.get(id)?.abort()
        open.get(id)?.()
        open.delete(id)
        return reply(Promise.resolve())
      }
      default:
        return Promise.resolve(app.answer(verb, content) as BridgeReply<never>)
    }
  }) satisfies Wires['asks'])
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
  page.metalbar = {
    ask: (verb, content) => page.asks(verb, content),
    onPush: (take) => {
      page.says = take
    },
  }
}
