import type { AgentLink, Listener, Unsubscribe } from '../../contract/client.ts'

type SeenDocument = Pick<Document, 'visibilityState' | 'addEventListener' | 'removeEventListener'>

/**
 * The link of a page whose tab may be hidden for hours: meanwhile nothing is sent to it, and nothing measured for it. What it follows goes
 * on where it was as soon as it is seen. The app does the same for its own window.
 */
export function whileSeen(link: AgentLink, page: SeenDocument): AgentLink {
  return {
    ...link,
    follow: (listener, looker) => pausing(page, listener, (each) => link.follow(each, looker)),
    stream: (request, listener) => {
      let { from } = request
      const next: typeof listener.next = (item) => {
        from = item.end
        listener.next(item)
      }
      return pausing(page, { ...listener, next }, (each) => link.stream({ ...request, ...(from && { from }) }, each))
    },
  }
}

function pausing<T>(page: SeenDocument, listener: Listener<T>, begin: (listener: Listener<T>) => Unsubscribe) {
  let stop: Unsubscribe | undefined
  const leave = () => {
    page.removeEventListener('visibilitychange', turn)
    stop?.()
    stop = undefined
  }
  const end: typeof listener.end = (error) => {
    leave()
    listener.end(error)
  }
  const turn = () => {
    if (page.visibilityState !== 'hidden') stop ??= begin({ ...listener, end })
    else {
      stop?.()
      stop = undefined
    }
  }
  page.addEventListener('visibilitychange', turn)
  turn()
  return leave
}
