import { BrowserWindow, ipcMain, type IpcMainInvokeEvent, type WebContents } from 'electron'
import { z } from 'zod'
import type { Logger } from '../../agent-core/observability/logger.ts'
import { type AppVerb, type BridgeReply, verbNames, verbRow, type VerbWork } from '../../contract/app-bridge.ts'
import { type AgentLink, LinkError } from '../../contract/client.ts'
import type { DoctorFinding } from '../../contract/doctor.ts'
import { appOrigin } from './app-scheme.ts'
import { channelOf } from '../ipc-channels.ts'
import { withAppFindings } from '../system/app-doctor.ts'
import { PageRequests } from './page.ts'
import { windowWords } from '../words.ts'

interface IpcOptions {
  readonly link: AgentLink
  readonly log: Logger
  /** What the app's own questions find. */
  readonly ofApp?: () => readonly DoctorFinding[]
  /** What the app does beside its agent. */
  readonly app: VerbWork<AppVerb>
}

/** Every verb over Electron's IPC, for the app's window alone: the sender is checked first, then the request; every failure is an answer. */
export function serveIpc({ link, log, ofApp = () => [], app }: IpcOptions): void {
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
    query: async ({ id, query }) => withAppFindings(query, await ofPage(page).ask(id, query), ofApp),
    withdraw: ({ id }) => ofPage(page).withdraw(id),
    listen: ({ id, request }) => ofPage(page).listen(id, request),
    leave: ({ id }) => ofPage(page).leave(id),
  })
  for (const verb of verbNames) {
    ipcMain.handle(channelOf(verb), async (event, content: unknown): Promise<BridgeReply<unknown>> => {
      if (!isOurPage(event)) {
        log.warn('a page that is not ours asked the app', { verb, origin: event.senderFrame?.origin })
        return failure(new LinkError('refused', windowWords.notOurPage))
      }
      const { in: schema, out } = verbRow(verb)
      const parsed = schema.safeParse(content)
      if (!parsed.success) {
        const why = z.prettifyError(parsed.error).replaceAll('\n', ' ')
        return failure(new LinkError('misunderstood', windowWords.notUnderstood(why)))
      }
      try {
        const value = await (workFor(event.sender)[verb] as (content: unknown) => unknown)(parsed.data)
        if (out === 'changed') return { ok: true, value: await app.appState() }
        return { ok: true, value: out === 'done' ? undefined : value }
      } catch (error) {
        if (error instanceof LinkError) return failure(error)
        // Its window was closed while it asked, and nobody waits for the answer.
        if (event.sender.isDestroyed()) return failure(new LinkError('gone', windowWords.closed))
        log.error('a request of the window failed', { verb, error })
        return failure(new LinkError('refused', windowWords.failed))
      }
    })
  }
}

/** A frame that has navigated or gone meanwhile is null. */
const isOurPage = ({ sender, senderFrame }: IpcMainInvokeEvent) =>
  senderFrame !== null && senderFrame === sender.mainFrame && senderFrame.origin === appOrigin

const failure = ({ code, message }: LinkError): BridgeReply<never> => ({ ok: false, failure: { code, message } })
