import { BrowserWindow, type WebContents } from 'electron'
import { z } from 'zod'
import type { Logger } from '../agent-core/observability/logger.ts'
import { LinkError, lookers, type AgentLink } from '../contract/client.ts'
import { commandRequest } from '../contract/commands.ts'
import { query } from '../contract/queries.ts'
import { streamRequest } from '../contract/streams.ts'
import { channels } from './ipc-channels.ts'
import { handle } from './ipc-handle.ts'
import { PageListeners } from './page-listeners.ts'

const id = z.string().min(1).max(100)
const listenRequest = z.object({
  id,
  request: z.discriminatedUnion('name', [
    z.object({ name: z.literal('snapshot'), looker: z.enum(lookers).default('window') }),
    ...streamRequest.options,
  ]),
})

/** The contract over Electron's IPC, for the app's window alone. */
export function serveIpc(link: AgentLink, log: Logger): void {
  const pages = new WeakMap<WebContents, PageListeners>()
  const listenersOf = (page: WebContents): PageListeners => {
    const known = pages.get(page)
    if (known) return known
    const window = BrowserWindow.fromWebContents(page)
    if (!window) throw new LinkError('refused', 'This page belongs to no window.')
    const listeners = new PageListeners(link, window)
    pages.set(page, listeners)
    return listeners
  }
  handle(log, channels.snapshot, z.undefined(), () => link.snapshot())
  handle(log, channels.command, commandRequest, ({ command, requestId }) => link.command(command, requestId))
  handle(log, channels.query, query, (asked) => link.query(asked))
  handle(log, channels.listen, listenRequest, (asked, page) => listenersOf(page).add(asked.id, asked.request))
  handle(log, channels.leave, z.object({ id }), (asked, page) => listenersOf(page).remove(asked.id))
}
