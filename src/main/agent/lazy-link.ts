import { messageOf } from '../../agent-core/util/message-of.ts'
import { LinkError, type AgentLink, type Listener, type Unsubscribe } from '../../contract/client.ts'

/** A link that is opened on the first request, and again after the agent was gone. */
export function lazyLink(open: () => Promise<AgentLink>): AgentLink {
  let opened: Promise<AgentLink> | undefined
  const current = () => (opened ??= open())
  const afterFailure = (failed: Promise<AgentLink>, error: unknown): LinkError => {
    const reason = asLinkError(error)
    if (reason.code === 'gone' && opened === failed) opened = undefined
    return reason
  }
  const ask = async <T>(question: (link: AgentLink) => Promise<T>): Promise<T> => {
    const link = current()
    try {
      return await question(await link)
    } catch (error) {
      throw afterFailure(link, error)
    }
  }
  const listen = <T>({ next, end }: Listener<T>, begin: (link: AgentLink, listener: Listener<T>) => Unsubscribe) => {
    const link = current()
    let stop: Unsubscribe | undefined
    let left = false
    const ended = (error: unknown) => {
      const reason = afterFailure(link, error)
      if (!left) end(reason)
    }
    link.then((ready) => {
      if (!left) stop = begin(ready, { next, end: ended })
    }, ended)
    return () => {
      left = true
      stop?.()
    }
  }
  return {
    follow: (listener, looker) => listen(listener, (link, own) => link.follow(own, looker)),
    snapshot: () => ask((link) => link.snapshot()),
    command: (command, requestId) => ask((link) => link.command(command, requestId)),
    query: (query, signal) => ask((link) => link.query(query, signal)),
    stream: (request, listener) => listen(listener, (link, own) => link.stream(request, own)),
  }
}

function asLinkError(error: unknown): LinkError {
  if (error instanceof LinkError) return error
  const message = messageOf(error)
  return new LinkError('gone', message, { cause: error })
}
