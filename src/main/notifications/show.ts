import { Notification } from 'electron'
import type { Logger } from '../../agent-core/observability/logger.ts'
import type { MenuDeed } from '../tray/menu-entries.ts'
import type { News } from './news.ts'

/** Kept here: Electron takes away what nothing refers to, and its click is lost. */
const shown = new Map<string, Notification>()
const maxShown = 20

/** Shows it where the system shows such; a person may have forbidden it there, which is theirs to do. */
export function showNews(
  { id, title, body, click, action }: News,
  log: Logger,
  onDeed: (deed: MenuDeed) => void,
): void {
  if (!Notification.isSupported()) return
  const notification = new Notification({
    id,
    groupId: 'metalbar',
    title,
    body,
    silent: true,
    actions: action ? [{ type: 'button', text: action.label }] : [],
  })
  notification.on('click', () => onDeed(click))
  if (action) notification.on('action', () => onDeed(action.deed))
  notification.on('failed', (_event, error) => log.warn('a notification was not shown', { title, error }))
  shown.delete(id)
  shown.set(id, notification)
  for (const [oldest] of shown) if (shown.size > maxShown) shown.delete(oldest)
  notification.show()
  log.info('notification', { title })
}
