import { LinkError, type AgentLink } from '../../contract/client.ts'
import { connectToAgent, NoAgentError, type ConnectOptions } from './agent-client.ts'

/** A link to the agent behind a socket. Throws LinkError. */
export async function openSocketLink(options: ConnectOptions): Promise<AgentLink> {
  const refused = () =>
    new LinkError('refused', 'This agent only says what it does; use the app or command that runs it.')
  const client = await connectToAgent(options).catch((error: unknown) => {
    throw asLinkError(error)
  })
  return {
    follow({ next, end }) {
      let left = false
      const run = async () => {
        for await (const snapshot of client.follow()) {
          if (left) return
          next(snapshot)
        }
      }
      run().catch((error: unknown) => {
        if (!left) end(asLinkError(error))
      })
      return () => {
        left = true
        void client.close()
      }
    },
    snapshot: () => client.snapshot(),
    command: () => Promise.reject(refused()),
    query: () => Promise.reject(refused()),
    stream: (_request, { end }) => {
      queueMicrotask(() => end(refused()))
      return () => undefined
    },
  }
}

function asLinkError(error: unknown): LinkError {
  const message = error instanceof Error ? error.message : String(error)
  return new LinkError(error instanceof NoAgentError ? 'gone' : 'misunderstood', message, { cause: error })
}
