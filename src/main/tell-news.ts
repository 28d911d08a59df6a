import type { Logger } from '../agent-core/observability/logger.ts'
import type { AgentView, AgentViewStore } from './agent-view.ts'
import { isLoginOfferDue, loginOffer } from './login-offer.ts'
import { loginItemState } from './login-item.ts'
import type { MenuDeed } from './menu/entries.ts'
import { movedNews } from './moved-settings.ts'
import { PacedNews } from './notifications/paced-news.ts'
import { showNews } from './notifications/show.ts'
import { onceKnown } from './once-known.ts'
import type { ShellPreferences } from './preferences.ts'

export interface TellNewsOptions {
  readonly view: AgentViewStore
  readonly log: Logger
  readonly prefer: (changes: Partial<ShellPreferences>) => Promise<void>
  readonly onDeed: (deed: MenuDeed) => void
}

/** Tells by notifications what icon and menu say too. Answers what is to be called when the machine woke. */
export function tellNews({ view, log, prefer, onDeed }: TellNewsOptions): () => void {
  const isWanted = () => view.getState().preferences?.notifications === true
  const paced = new PacedNews({ isWanted, show: (news) => showNews(news, log, onDeed) })
  let isOffered = false
  const offerLogin = () => {
    // What asks the system comes last.
    if (
      isOffered ||
      !isLoginOfferDue(view.getState(), 'not-registered') ||
      loginItemState(view.getState().misplaced) !== 'not-registered'
    )
      return
    isOffered = true
    view.setState({ offersLoginItem: true })
    if (isWanted()) showNews(loginOffer, log, onDeed)
    prefer({ loginItemOffered: true }).catch((error: unknown) => log.warn('the offer is not remembered', { error }))
  }
  view.subscribe((state, before) => {
    // Until it is known whether a person wants to be told, nothing counts as told.
    if (!state.snapshot || !state.preferences) return
    if (state.snapshot === before.snapshot && before.preferences) return
    paced.next(state.snapshot)
    offerLogin()
  })
  const moved = (now: AgentView) => now.movedKeys
  onceKnown(view, moved, (keys) => {
    if (isWanted()) showNews(movedNews(keys), log, onDeed)
  })
  return () => paced.woke()
}
