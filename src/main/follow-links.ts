import { app } from 'electron'
import type { Logger } from '../agent-core/observability/logger.ts'
import { linkScheme, targetOf, type LinkTarget } from './links.ts'

export interface FollowLinksOptions {
  readonly log: Logger
  /** Whether the app is where it stays. */
  readonly isPlaced: Promise<boolean>
  readonly onLink: (target: LinkTarget) => void
}

/**
 * Before the app is ready: the link that started it comes early. Of links whatever they say nothing but that one came gets into the log.
 * Answers what is to be called when the window can be shown.
 */
export function catchLinks(): (options: FollowLinksOptions) => void {
  const early: string[] = []
  let take = (link: string): void => void early.push(link)
  app.on('open-url', (event, link) => {
    event.preventDefault()
    take(link)
  })
  return ({ log, isPlaced, onLink }) => {
    void isPlaced.then((stays) => {
      // Of the sources it would be Electron that the system opens such links with.
      if (app.isPackaged && stays) app.setAsDefaultProtocolClient(linkScheme)
    })
    take = (link) => {
      const target = targetOf(link)
      if (target) onLink(target)
      else log.warn('a link that opens nothing', { length: link.length })
    }
    const newest = early.pop()
    if (early.length > 0) log.warn('links that came before a newer one', { count: early.length })
    if (newest !== undefined) take(newest)
  }
}
