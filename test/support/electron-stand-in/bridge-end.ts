/** What crosses between the two worlds of a page: plain trees, in which functions and promises are numbers. */
type Wire =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'function' | 'promise'; readonly id: number }
  | { readonly kind: 'error'; readonly message: string }
  | { readonly kind: 'array'; readonly items: readonly Wire[] }
  | { readonly kind: 'object'; readonly entries: readonly (readonly [string, Wire])[] }

type Message =
  | { readonly to: 'call'; readonly id: number; readonly call: number; readonly args: readonly Wire[] }
  | { readonly to: 'return' | 'throw'; readonly call: number; readonly value: Wire }
  | { readonly to: 'resolve' | 'reject'; readonly id: number; readonly value: Wire }
  | { readonly to: 'expose'; readonly name: string; readonly api: Wire }
  /** The end in the page is there, and gets what was exposed before. */
  | { readonly to: 'begin' }

export interface BridgeEnd {
  expose(name: string, api: unknown): void
}

/**
 * One end of the bridge between the world of the page and that of its preload script. As Electron's it passes copies of what can be cloned,
 * without prototypes; functions can be called across, promises settle across, errors keep their message alone, and symbols are left out. It
 * runs in pages, so it refers to nothing outside of itself; what the worlds of a page share is its events.
 */
export function bridgeEnd(own: 'page' | 'preload', world: EventTarget & Record<string, unknown>): BridgeEnd {
  const deepest = 1_000
  const functions = new Map<number, (...args: unknown[]) => unknown>()
  const promises = new Map<number, PromiseWithResolvers<unknown>>()
  const answers = new Map<number, Extract<Message, { to: 'return' | 'throw' }>>()
  const exposed: Extract<Message, { to: 'expose' }>[] = []
  let last = 0

  const send = (message: Message) => {
    const name = `electron-bridge-from-${own}`
    world.dispatchEvent(new CustomEvent(name, { detail: message }))
  }
  const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))

  const wired = (value: unknown, depth = 0): Wire => {
    if (depth > deepest) throw new TypeError('Electron contextBridge recursion depth exceeded')
    if (typeof value === 'function') {
      const id = ++last
      functions.set(id, value as () => unknown)
      return { kind: 'function', id }
    }
    if (typeof value === 'symbol') return { kind: 'value', value: undefined }
    if (typeof value !== 'object' || value === null) return { kind: 'value', value }
    if (value instanceof Promise) {
      const id = ++last
      value.then(
        (settled) => send({ to: 'resolve', id, value: wired(settled) }),
        (error: unknown) => send({ to: 'reject', id, value: { kind: 'error', message: messageOf(error) } }),
      )
      return { kind: 'promise', id }
    }
    if (value instanceof Error) return { kind: 'error', message: value.message }
    if (Array.isArray(value)) return { kind: 'array', items: value.map((item) => wired(item, depth + 1)) }
    if (Object.prototype.toString.call(value) !== '[object Object]') {
      return { kind: 'value', value: structuredClone(value) }
    }
    const entries = Object.entries(value).filter(([, one]) => typeof one !== 'symbol')
    return { kind: 'object', entries: entries.map(([key, one]) => [key, wired(one, depth + 1)]) }
  }

  const unwired = (wire: Wire): unknown => {
    if (wire.kind === 'value') return wire.value
    if (wire.kind === 'error') return new Error(wire.message)
    if (wire.kind === 'array') return wire.items.map(unwired)
    if (wire.kind === 'object') return Object.fromEntries(wire.entries.map(([key, one]) => [key, unwired(one)]))
    if (wire.kind === 'function') return (...args: unknown[]) => call(wire.id, args)
    const promise = Promise.withResolvers()
    promises.set(wire.id, promise)
    return promise.promise
  }

  const call = (id: number, args: readonly unknown[]): unknown => {
    const number = ++last
    send({ to: 'call', id, call: number, args: args.map((one) => wired(one)) })
    // Events are heard at once, so the answer is there.
    const answer = answers.get(number)
    answers.delete(number)
    if (!answer) throw new Error('The other world of this page is gone.')
    const value = unwired(answer.value)
    if (answer.to === 'throw') throw value as Error
    return value
  }

  const answered = (message: Extract<Message, { to: 'call' }>): Message => {
    try {
      const value = functions.get(message.id)?.(...message.args.map(unwired))
      return { to: 'return', call: message.call, value: wired(value) }
    } catch (error) {
      return { to: 'throw', call: message.call, value: { kind: 'error', message: messageOf(error) } }
    }
  }

  const heard = (message: Message) => {
    switch (message.to) {
      case 'call':
        send(answered(message))
        return
      case 'return':
      case 'throw':
        answers.set(message.call, message)
        return
      case 'resolve':
        promises.get(message.id)?.resolve(unwired(message.value))
        promises.delete(message.id)
        return
      case 'reject':
        promises.get(message.id)?.reject(unwired(message.value))
        promises.delete(message.id)
        return
      case 'expose':
        if (!(message.name in world)) {
          Object.defineProperty(world, message.name, { value: Object.freeze(unwired(message.api)), enumerable: true })
        }
        return
      case 'begin':
        for (const one of exposed) send(one)
    }
  }

  world.addEventListener(`electron-bridge-from-${own === 'page' ? 'preload' : 'page'}`, (event) =>
    heard((event as CustomEvent<Message>).detail),
  )
  if (own === 'page') send({ to: 'begin' })
  return {
    expose(name, api) {
      if (exposed.some((before) => before.name === name)) {
        throw new Error('Cannot bind an API on top of an existing property on the window object')
      }
      const message = { to: 'expose', name, api: wired(api) } as const
      exposed.push(message)
      send(message)
    },
  }
}
