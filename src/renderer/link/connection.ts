import { type Bridge, type BridgeReply, type ListenInput, verbsOver } from '../../contract/app-bridge.ts'
import {
  type AgentLink,
  asLinkError,
  type LinkError,
  type LinkFailure,
  type Listener,
  retryDelayMs,
  type Unsubscribe,
  withdrawn,
} from '../../contract/client.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'

/** How this window stands with the agent; times are milliseconds of this computer's clock. */
export type Connection =
  | { readonly state: 'connecting' }
  | { readonly state: 'live' }
  /** Tried again at `retryAt`. */
  | { readonly state: 'gone'; readonly message: string; readonly since: number; readonly retryAt: number }
  /** Not tried again: only a person can fix it. */
  | { readonly state: 'refused'; readonly message: string }

/** Follows an agent through its restarts. */
export class AgentConnection {
  readonly #link: AgentLink
  readonly #onSnapshot: (snapshot: AgentSnapshot) => void
  readonly #onChange: (connection: Connection) => void
  #failures = 0
  #goneSince: number | undefined
  #unfollow: Unsubscribe | undefined
  #retry: ReturnType<typeof setTimeout> | undefined

  constructor(
    link: AgentLink,
    onSnapshot: (snapshot: AgentSnapshot) => void,
    onChange: (connection: Connection) => void,
  ) {
    this.#link = link
    this.#onSnapshot = onSnapshot
    this.#onChange = onChange
  }

  /** Also tries at once what would be tried later. */
  connect(): void {
    clearTimeout(this.#retry)
    this.#unfollow?.()
    this.#unfollow = this.#link.follow({ next: (snapshot) => this.#next(snapshot), end: (error) => this.#end(error) })
  }

  #next(snapshot: AgentSnapshot): void {
    this.#onSnapshot(snapshot)
    this.#failures = 0
    this.#goneSince = undefined
    this.#onChange({ state: 'live' })
  }

  #end(error: LinkError): void {
    this.#unfollow = undefined
    if (error.code !== 'gone') {
      this.#onChange({ state: 'refused', message: error.message })
      return
    }
    this.#failures += 1
    this.#goneSince ??= Date.now()
    const delay = retryDelayMs(this.#failures)
    this.#onChange({ state: 'gone', message: error.message, since: this.#goneSince, retryAt: Date.now() + delay })
    this.#retry = setTimeout(() => this.connect(), delay)
  }
}

/** The agent of the app this window belongs to. */
export function linkOverBridge(bridge: Bridge): AgentLink {
  const app = verbsOver(bridge)
  /** By the id under which values are pushed. */
  const listeners = new Map<string, Listener<never>>()
  const ended = (id: string, failure: LinkFailure) => {
    const listener = listeners.get(id)
    listeners.delete(id)
    listener?.end(asLinkError(failure))
  }
  bridge.onPush((push) => {
    if ('item' in push) listeners.get(push.id)?.next(push.item as never)
    else ended(push.id, push.failure)
  })
  const listen = (request: ListenInput, listener: Listener<never>): Unsubscribe => {
    const id = crypto.randomUUID()
    listeners.set(id, listener)
    void app.listen({ id, request }).then((reply) => {
      if (!reply.ok) ended(id, reply.failure)
    })
    return () => {
      if (listeners.delete(id)) void app.leave({ id })
    }
  }
  return {
    follow: (listener, looker) => listen({ name: 'snapshot', looker }, listener),
    snapshot: async () => valueOf(await app.snapshot()),
    command: async (command, requestId = crypto.randomUUID()) => valueOf(await app.command({ requestId, command })),
    query: async (query, signal) => {
      if (signal?.aborted === true) throw withdrawn()
      const id = crypto.randomUUID()
      const leave = () => void app.leave({ id })
      signal?.addEventListener('abort', leave, { once: true })
      try {
        return valueOf(await app.query({ id, query })) as never
      } finally {
        signal?.removeEventListener('abort', leave)
      }
    },
    stream: listen,
  }
}

function valueOf<T>(reply: BridgeReply<T>): T {
  if (reply.ok) return reply.value
  throw asLinkError(reply.failure)
}
