/** Runs a preload script in a page as Electron's sandbox does: with a `require` that knows nothing but Electron. */
export const preloadScript = (preload: string) =>
  `(${worldOfPreload.toString()})((require, module, exports) => {${preload}\n})`

/** Runs in the page, so it refers to nothing outside of itself. */
function worldOfPreload(preload: (require: (name: string) => unknown, module: object, exports: object) => void): void {
  const page: Record<string, unknown> & { readonly electronInvoke?: (channel: string, content: unknown) => unknown } =
    globalThis
  if (page['top'] !== page['window'] || page.electronInvoke === undefined) return
  const { electronInvoke } = page
  const listeners = new Map<string, ((event: object, ...content: unknown[]) => void)[]>()
  const ipcRenderer = {
    invoke: (channel: string, ...content: unknown[]) => electronInvoke(channel, structuredClone(content)),
    on: (channel: string, listener: (event: object, ...content: unknown[]) => void) =>
      void listeners.set(channel, [...(listeners.get(channel) ?? []), listener]),
  }
  page['electronReceive'] = (channel: string, content: readonly unknown[]) => {
    for (const listener of listeners.get(channel) ?? []) listener({}, ...content)
  }
  const contextBridge = {
    exposeInMainWorld: (name: string, api: object) =>
      void Object.defineProperty(page, name, { value: Object.freeze(copied(api)), enumerable: true }),
  }
  /** Functions can be called across, everything else is a copy; an error keeps its message and nothing more. */
  const copied = (value: unknown): unknown => {
    if (typeof value === 'function')
      return (...args: unknown[]) => copied(Reflect.apply(value, undefined, args.map(copied)))
    if (value instanceof Promise) {
      return value.then(copied, (error: unknown) => {
        throw new Error(error instanceof Error ? error.message : String(error))
      })
    }
    if (value instanceof Error) return new Error(value.message)
    if (Array.isArray(value)) return value.map(copied)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, copied(one)]))
  }
  const require = (name: string) => {
    if (name === 'electron') return { contextBridge, ipcRenderer }
    throw new Error(`module not found: ${name}`)
  }
  preload(require, { exports: {} }, {})
}
