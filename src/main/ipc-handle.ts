import { ipcMain, type IpcMainInvokeEvent, type WebContents } from 'electron'
import { z } from 'zod'
import type { Logger } from '../agent-core/observability/logger.ts'
import type { BridgeReply } from '../contract/app-bridge.ts'
import { LinkError } from '../contract/client.ts'
import { appOrigin } from './app-scheme.ts'

/** The only place that registers channels: the sender is checked first, then the request; every failure is an answer. */
export function handle<T>(
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
      // Its window was closed while it asked, and nobody waits for the answer.
      if (event.sender.isDestroyed()) return failure(new LinkError('gone', 'The window is closed.'))
      log.error('a request of the window failed', { channel, error })
      return failure(new LinkError('refused', 'The app could not do it; its log says why.'))
    }
  })
}

/** A frame that has navigated or gone meanwhile is null. */
const isOurPage = ({ sender, senderFrame }: IpcMainInvokeEvent) =>
  senderFrame !== null && senderFrame === sender.mainFrame && senderFrame.origin === appOrigin

const failure = ({ code, message }: LinkError): BridgeReply<never> => ({ ok: false, failure: { code, message } })
