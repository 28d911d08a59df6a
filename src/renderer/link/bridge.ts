import type { Bridge, BridgeReply, LinkFailure } from '../../contract/bridge.ts'
import { type AgentLink, LinkError } from '../../contract/client.ts'

/** The agent of the app this window belongs to. */
export function linkOverBridge(bridge: Bridge): AgentLink {
  return {
    follow: ({ next, end }) => bridge.follow(next, (failure) => end(asError(failure))),
    snapshot: async () => valueOf(await bridge.snapshot()),
    command: async (command, requestId = crypto.randomUUID()) => valueOf(await bridge.command(command, requestId)),
    query: async (query) => valueOf(await bridge.query(query)),
    stream: (request, { next, end }) => bridge.stream(request, next, (failure) => end(asError(failure))),
  }
}

function valueOf<T>(reply: BridgeReply<T>): T {
  if (reply.ok) return reply.value
  throw asError(reply.failure)
}

const asError = ({ code, message }: LinkFailure) => new LinkError(code, message)
