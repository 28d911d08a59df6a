import { BrowserWindow, ipcMain, type IpcMainInvokeEvent, type WebContents } from 'electron'
import { z } from 'zod'
import type { Logger } from '../../agent-core/observability/logger.ts'
import { type AppVerb, type BridgeReply, type Verb, verbs, type VerbWork } from '../../contract/app-bridge.ts'
import { type AgentLink, LinkError } from '../../contract/client.ts'
import { appOrigin } from './app-scheme.ts'
import { channel } from '../ipc-channels.ts'
import { PageRequests } from './page.ts'
import { windowWords } from '../words.ts'

interface IpcOptions {
  readonly link: AgentLink
  readonly log: Logger
  /** What the app does beside its agent. */
  readonly app: VerbWork<AppVerb>
}

/** Every verb over Electron's IPC, for the app's window alone: the sender is checked first, then the request; every failure is an answer. */
export function serveIpc({ link, log, app }: IpcOptions): void {
  const pages = new WeakMap<WebContents, PageRequests>()
  const ofPage = (page: WebContents): PageRequests => {
    const known = pages.get(page)
    if (known) return known
    const window = BrowserWindow.fromWebContents(page)
    if (!window) throw new LinkError('refused', windowWords.noWindow)
    const made = new PageRequests(link, window)
    pages.set(page, made)
    return made
  }
  const workFor = (page: WebContents): VerbWork => ({
    ...app,
    snapshot: () => link.snapshot(),
    command: ({ command, requestId }) => link.command(command, requestId),
    query: ({ id, query }) => ofPage(page).ask(id, query),
    listen: ({ id, request }) => ofPage(page).listen(id, request),
    leave: ({ id }) => ofPage(page).leave(id),
  })
  ipcMain.handle(channel, async (event, given: unknown): Promise<BridgeReply<unknown>> => {
    try {
      if (!isOurPage(event)) {
        log.warn('a page that is not ours asked the app', { origin: event.senderFrame?.origin })
        throw new LinkError('refused', windowWords.notOurPage)
      }
      const { verb, content } = understood(asked, given)
      const work = workFor(event.sender)[verb] as (content: unknown) => unknown
      return { ok: true, value: await work(understood<unknown>(verbs[verb].in, content)) }
    } catch (error) {
      if (error instanceof LinkError) return failure(error)
      // Its window was closed while it asked, and nobody waits for the answer.
      if (event.sender.isDestroyed()) return failure(new LinkError('gone', windowWords.closed))
      log.error('a request of the window failed', { error })
      return failure(new LinkError('refused', windowWords.failed))
    }
  })
}

const asked = z.object({ verb: z.enum(Object.keys(verbs) as Verb[]), content: z.unknown().optional() })

function understood<T>(schema: z.ZodType<T>, given: unknown): T {
  const { data, error } = schema.safeParse(given)
  if (error)
    throw new LinkError('misunderstood', windowWords.notUnderstood(z.prettifyError(error).replaceAll('\n', ' ')))
  return data
}

/** A frame that has navigated or gone meanwhile is null. */
const isOurPage = ({ sender, senderFrame }: IpcMainInvokeEvent) =>
  senderFrame !== null && senderFrame === sender.mainFrame && senderFrame.origin === appOrigin

const failure = ({ code, message }: LinkError): BridgeReply<never> => ({ ok: false, failure: { code, message } })
