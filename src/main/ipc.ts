import { BrowserWindow, ipcMain, type IpcMainInvokeEvent, type WebContents } from 'electron'
import { z } from 'zod'
import type { Logger } from '../agent-core/observability/logger.ts'
import type { BridgeReply } from '../contract/bridge.ts'
import { LinkError, lookers, type AgentLink } from '../contract/client.ts'
import { commandRequest, serviceRef } from '../contract/commands.ts'
import { logRun } from '../contract/log.ts'
import { query } from '../contract/queries.ts'
import { streamRequest } from '../contract/streams.ts'
import { appOrigin } from './app-scheme.ts'
import { channels } from './ipc-channels.ts'
import { PageListeners } from './page-listeners.ts'

const id = z.string().min(1).max(100)
const listenRequest = z.object({
  id,
  request: z.discriminatedUnion('name', [
    z.object({ name: z.literal('snapshot'), looker: z.enum(lookers).default('window') }),
    ...streamRequest.options,
  ]),
})

export interface WindowControls {
  readonly onEscape: () => void
  readonly onKeep: (isKept: boolean) => void
  readonly showInFolder: (file: string) => void
}

/** The contract over Electron's IPC, for the app's window alone. */
export function serveIpc(link: AgentLink, log: Logger, { onEscape, onKeep, showInFolder }: WindowControls): void {
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
  handle(log, channels.revealLog, z.object({ service: serviceRef, run: logRun }), async (asked) => {
    // A page names a run, never a file.
    const { file } = await link.query({ name: 'log', ...asked, lines: 1 })
    if (file === undefined) throw new LinkError('refused', 'There is no file of that run.')
    showInFolder(file)
    return null
  })
  handle(log, channels.leave, z.object({ id }), (asked, page) => listenersOf(page).remove(asked.id))
  handle(log, channels.keep, z.boolean(), (isKept) => {
    onKeep(isKept)
    return null
  })
  handle(log, channels.escape, z.undefined(), onEscape)
}

/** The only place that registers channels: the sender is checked first, then the request; every failure is an answer. */
function handle<T>(
  log: Logger,
  channel: string,
  schema: z.ZodType<T>,
  run: (content: T, page: WebContents) => unknown,
): void {
  ipcMain.handle(channel, async (event, content: unknown): Promise<BridgeReply<unknown>> => {
    if (!isOurPage(event)) {
      log.warn('a page that is not ours asked the agent', { channel, origin: event.senderFrame?.origin })
      return failure(new LinkError('refused', 'Only the window of this app may ask the agent.'))
    }
    const parsed = schema.safeParse(content)
    if (!parsed.success) {
      const why = z.prettifyError(parsed.error).replaceAll('\n', ' ')
      return failure(new LinkError('misunderstood', `The app did not understand its window: ${why}`))
    }
    try {
      return { ok: true, value: await run(parsed.data, event.sender) }
    } catch (error) {
      if (error instanceof LinkError) return failure(error)
      log.error('a request of the window failed', { channel, error })
      return failure(new LinkError('refused', 'The app could not do it; its log says why.'))
    }
  })
}

/** A frame that has navigated or gone meanwhile is null. */
const isOurPage = ({ sender, senderFrame }: IpcMainInvokeEvent) =>
  senderFrame !== null && senderFrame === sender.mainFrame && senderFrame.origin === appOrigin

const failure = ({ code, message }: LinkError): BridgeReply<never> => ({ ok: false, failure: { code, message } })
