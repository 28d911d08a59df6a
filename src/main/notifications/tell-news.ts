import { Notification } from 'electron'
import type { Logger } from '../../agent-core/observability/logger.ts'
import type { LoginItemState } from '../../contract/app-state.ts'
import { sharedWords } from '../../contract/words.ts'
import type { AgentView, AgentViewStore } from '../agent/agent-view.ts'
import type { ShellPreferences } from '../preferences.ts'
import { loginItemState } from '../system/macos.ts'
import type { MenuAction } from '../tray/menu-entries.ts'
import type { News } from './news.ts'
import { PacedNews } from './paced-news.ts'
import { newsWords } from '../words.ts'

export interface TellNewsOptions {
  readonly view: AgentViewStore
  readonly log: Logger
  readonly prefer: (changes: Partial<ShellPreferences>) => Promise<void>
  readonly onAction: (action: MenuAction) => void
  /** A defect ended the app, which was then started again. */
  readonly isAfterDefect: boolean
}

/** Tells by notifications what icon and menu say too. Answers what is to be called when the machine woke. */
export function tellNews({ view, log, prefer, onAction, isAfterDefect }: TellNewsOptions): () => void {
  const isWanted = () => view.getState().preferences?.notifications === true
  const paced = new PacedNews({ isWanted, show: (news) => showNews(news, log, onAction) })
  let isDefectTold = !isAfterDefect
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
    if (isWanted()) showNews(loginOffer, log, onAction)
    prefer({ loginItemOffered: true }).catch((error: unknown) => log.warn('the offer is not remembered', { error }))
  }
  view.subscribe((state, before) => {
    // Until it is known whether a person wants notifications, nothing counts as notified.
    if (!state.snapshot || !state.preferences) return
    if (state.snapshot === before.snapshot && before.preferences) return
    paced.next(state.snapshot)
    if (!isDefectTold && isWanted()) showNews(afterDefect, log, onAction)
    isDefectTold = true
    offerLogin()
  })
  return () => paced.woke()
}

/** Once, when the first model serves: then a person knows what the app is for. */
export const isLoginOfferDue = ({ snapshot, preferences }: AgentView, loginItem: LoginItemState): boolean =>
  preferences?.loginItemOffered === false &&
  loginItem === 'not-registered' &&
  snapshot?.services.some(({ state }) => state === 'ready') === true

const afterDefect: News = { id: 'defect', ...newsWords.afterDefect, click: ['open', { view: 'help' }] }

/** The menu says the same until the app ends, and has it under This app from then on. */
export const loginOffer: News = {
  id: 'login item',
  ...newsWords.loginItem,
  click: ['open', { view: 'settings' }],
  button: { label: sharedWords.loginItem, action: ['setLoginItem', true] },
}

/** Kept here: Electron takes away what nothing refers to, and its click is lost. */
const shown = new Map<string, Notification>()
const maxShown = 20

/** Shows a notification, unless the system has none or the person has turned them off there. */
export function showNews(
  { id, title, body, click, button }: News,
  log: Logger,
  onAction: (action: MenuAction) => void,
): void {
  if (!Notification.isSupported()) return
  const notification = new Notification({
    id,
    groupId: 'metalbar',
    title,
    body,
    silent: true,
    actions: button ? [{ type: 'button', text: button.label }] : [],
  })
  notification.on('click', () => onAction(click))
  if (button) notification.on('action', () => onAction(button.action))
  notification.on('failed', (_event, error) => log.warn('a notification was not shown', { title, error }))
  shown.delete(id)
  shown.set(id, notification)
  for (const [oldest] of shown) if (shown.size > maxShown) shown.delete(oldest)
  notification.show()
  log.info('notification', { title })
}
