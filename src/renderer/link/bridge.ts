import type { Bridge, BridgeReply } from '../../contract/app-bridge.ts'
import { type AgentLink, asLinkError, withdrawn } from '../../contract/client.ts'

/** The agent of the app this window belongs to. */
export function linkOverBridge(bridge: Bridge): AgentLink {
  return {
    follow: ({ next, end }, looker) => bridge.follow(next, (failure) => end(asLinkError(failure)), looker),
    snapshot: async () => valueOf(await bridge.snapshot()),
    command: async (command, requestId = crypto.randomUUID()) => valueOf(await bridge.command(command, requestId)),
    query: async (query, signal) => {
      if (signal?.aborted === true) throw withdrawn()
      const id = crypto.randomUUID()
      const withdraw = () => void bridge.withdraw(id)
      signal?.addEventListener('abort', withdraw, { once: true })
      try {
        return valueOf(await bridge.query(query, id))
      } finally {
        signal?.removeEventListener('abort', withdraw)
      }
    },
    stream: (request, { next, end }) => bridge.stream(request, next, (failure) => end(asLinkError(failure))),
  }
}

function valueOf<T>(reply: BridgeReply<T>): T {
  if (reply.ok) return reply.value
  throw asLinkError(reply.failure)
}
