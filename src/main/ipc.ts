import { BrowserWindow, type WebContents } from 'electron'
import { z } from 'zod'
import type { Logger } from '../agent-core/observability/logger.ts'
import { LinkError, lookers, type AgentLink } from '../contract/client.ts'
import { commandRequest } from '../contract/commands.ts'
import { query } from '../contract/queries.ts'
import { streamRequest } from '../contract/log.ts'
import { channels } from './ipc-channels.ts'
import { handle } from './ipc-handle.ts'
import { PageListeners } from './page-listeners.ts'
import { PageQuestions } from './page-questions.ts'

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
  const listenersOf = ofEachPage((window) => new PageListeners(link, window))
  const questionsOf = ofEachPage((window) => new PageQuestions(link, window))
  handle(log, channels.snapshot, z.undefined(), () => link.snapshot())
  handle(log, channels.command, commandRequest, ({ command, requestId }) => link.command(command, requestId))
  handle(log, channels.query, z.object({ id, query }), (asked, page) => questionsOf(page).ask(asked.id, asked.query))
  handle(log, channels.withdraw, z.object({ id }), (asked, page) => questionsOf(page).withdraw(asked.id))
  handle(log, channels.listen, listenRequest, (asked, page) => listenersOf(page).add(asked.id, asked.request))
  handle(log, channels.leave, z.object({ id }), (asked, page) => listenersOf(page).remove(asked.id))
}

type PageWindow = ConstructorParameters<typeof PageListeners>[1]

/** What is made once for each page, from its window. */
function ofEachPage<T>(make: (window: PageWindow) => T): (page: WebContents) => T {
  const made = new WeakMap<WebContents, { readonly of: T }>()
  return (page) => {
    const known = made.get(page)
    if (known) return known.of
    const window = BrowserWindow.fromWebContents(page)
    if (!window) throw new LinkError('refused', 'This page belongs to no window.')
    const of = make(window)
    made.set(page, { of })
    return of
  }
}
