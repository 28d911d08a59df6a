import { bridgeEnd, type BridgeEnd } from './bridge-end.ts'

/** Both worlds of a page have their own globals, and share its events. */
type World = EventTarget & Record<string, unknown>

/** What the world of a preload script is given by the process that runs it. */
export const sendName = 'electronSend'
/** What it answers by: a reply to a request of `ipcRenderer.invoke`, or a message of the app. */
export const receiveName = 'electronReceive'

export type ToApp = { readonly id: number; readonly channel: string; readonly content: readonly unknown[] }
export type FromApp =
  | { readonly id: number; readonly value?: unknown; readonly error?: string }
  | { readonly channel: string; readonly content: readonly unknown[] }
  /** Whether the page has the keys. */
  | { readonly isFocused: boolean }

/** In the world of the page. */
export const pageScript = (): string => `(${bridgeEnd.toString()})('page', globalThis)`

/** Runs a preload script in a world of its own as Electron's sandbox does: with a `require` that knows nothing but Electron. */
export const preloadScript = (preload: string): string =>
  `(${worldOfPreload.toString()})(globalThis, ${bridgeEnd.toString()}, (require, module, exports) => {${preload}\n})`

/** Runs in the page, so it refers to nothing outside of itself. */
function worldOfPreload(
  world: World,
  makeBridge: (own: 'preload', world: World) => BridgeEnd,
  preload: (require: (name: string) => unknown, module: object, exports: object) => void,
): void {
  if (world['top'] !== world['window']) return
  const send = world['electronSend'] as (message: string) => void
  const listeners = new Map<string, ((event: object, ...content: unknown[]) => void)[]>()
  const requests = new Map<number, PromiseWithResolvers<unknown>>()
  let last = 0
  const bridge = makeBridge('preload', world)
  // Only what the app's own focus says counts: this Chromium has one for all of its pages.
  for (const name of ['focus', 'blur']) {
    const drop = (event: Event) => {
      if (event.isTrusted && event.target === world) event.stopImmediatePropagation()
    }
    world.addEventListener(name, drop, { capture: true })
  }
  world['electronReceive'] = (text: string) => {
    const message = JSON.parse(text) as FromApp
    if ('isFocused' in message) {
      world.dispatchEvent(new Event(message.isFocused ? 'focus' : 'blur'))
    } else if ('channel' in message) {
      for (const listener of listeners.get(message.channel) ?? []) listener({}, ...message.content)
    } else {
      const request = requests.get(message.id)
      requests.delete(message.id)
      if (message.error === undefined) request?.resolve(message.value)
      else request?.reject(new Error(message.error))
    }
  }
  const ipcRenderer = {
    invoke: (channel: string, ...content: unknown[]) => {
      const id = ++last
      const request = Promise.withResolvers()
      requests.set(id, request)
      send(JSON.stringify({ id, channel, content: structuredClone(content) } satisfies ToApp))
      return request.promise
    },
    on: (channel: string, listener: (event: object, ...content: unknown[]) => void) =>
      void listeners.set(channel, [...(listeners.get(channel) ?? []), listener]),
  }
  const contextBridge = { exposeInMainWorld: (name: string, api: unknown) => bridge.expose(name, api) }
  const require = (name: string) => {
    if (name === 'electron') return { contextBridge, ipcRenderer }
    throw new Error(`module not found: ${name}`)
  }
  preload(require, { exports: {} }, {})
}
