/** As Electron's WebFrameMain, as far as it is asked. */
export interface Frame {
  readonly origin: string
  readonly url: string
}

export interface InvokeEvent {
  readonly sender: { readonly mainFrame: Frame; isDestroyed?(): boolean }
  readonly senderFrame: Frame | null
}

type Handler = (event: InvokeEvent, ...content: unknown[]) => unknown

const handlers = new Map<string, Handler>()

export const ipcMain = {
  handle(channel: string, handler: Handler): void {
    if (handlers.has(channel)) throw new Error(`Attempted to register a second handler for '${channel}'`)
    handlers.set(channel, handler)
  },
  removeHandler(channel: string): void {
    handlers.delete(channel)
  },
}

/** What `ipcRenderer.invoke` gets: a copy, or a plain Error that names the channel. What a page sent is not heard once its window is gone. */
export async function invoke(event: InvokeEvent, channel: string, content: readonly unknown[]): Promise<unknown> {
  if (event.sender.isDestroyed?.() === true) throw new Error('Object has been destroyed')
  const handler = handlers.get(channel)
  if (!handler) throw new Error(`Error invoking remote method '${channel}': No handler registered for '${channel}'`)
  try {
    return structuredClone(await handler(event, ...structuredClone(content)))
  } catch (error) {
    throw new Error(`Error invoking remote method '${channel}': ${String(error)}`, { cause: error })
  }
}
