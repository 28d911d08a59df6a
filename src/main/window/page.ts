import type { BrowserWindow } from 'electron'
import { type AgentLink, LinkError, type Looker, type Unsubscribe } from '../../contract/client.ts'
import type { StreamItem, StreamRequest } from '../../contract/log.ts'
import type { Answer, Query } from '../../contract/queries.ts'
import type { Push } from '../../contract/app-bridge.ts'
import { channel } from '../ipc-channels.ts'
import { windowWords } from '../words.ts'

/** A page that asks for more has a defect. */
const maxListeners = 32
const maxQuestions = 100

type Request = { readonly name: 'snapshot'; readonly looker?: Looker } | StreamRequest

/** The parts of a BrowserWindow that are used here. */
type PageWindow = Pick<BrowserWindow, 'on' | 'isVisible' | 'isDestroyed' | 'webContents'>

interface PageListener {
  request: Request
  /** Set while the window is seen. */
  stop?: Unsubscribe | undefined
}

/**
 * What one page follows, and what it has asked and not been answered. While its window is hidden nothing is followed and nothing sent; a page
 * that is gone waits for nothing.
 */
export class PageRequests {
  readonly #link: AgentLink
  readonly #window: PageWindow
  readonly #listeners = new Map<string, PageListener>()
  readonly #asked = new Map<string, AbortController>()

  constructor(link: AgentLink, window: PageWindow) {
    this.#link = link
    this.#window = window
    window.on('show', () => this.#resume())
    window.on('hide', () => this.#pause())
    window.on('closed', () => this.#clear())
    // Another document has requests of its own.
    window.webContents.on('did-navigate', () => this.#clear())
    window.webContents.on('render-process-gone', () => this.#clear())
  }

  /** Throws LinkError. */
  async ask(id: string, query: Query): Promise<Answer> {
    if (this.#asked.size >= maxQuestions) throw new LinkError('refused', windowWords.asksTooMuch)
    if (this.#asked.has(id)) throw new LinkError('refused', windowWords.asks(id))
    const leaving = new AbortController()
    this.#asked.set(id, leaving)
    try {
      return await this.#link.query(query, leaving.signal)
    } finally {
      this.#asked.delete(id)
    }
  }

  /** Throws LinkError. */
  listen(id: string, request: Request): void {
    if (this.#listeners.size >= maxListeners) throw new LinkError('refused', windowWords.followsTooMuch)
    if (this.#listeners.has(id)) throw new LinkError('refused', windowWords.follows(id))
    const listener: PageListener = { request }
    this.#listeners.set(id, listener)
    if (this.#window.isVisible()) this.#begin(id, listener)
  }

  /** Nobody waits any longer for the answer, or for what is followed. */
  leave(id: string): void {
    this.#asked.get(id)?.abort()
    this.#listeners.get(id)?.stop?.()
    this.#listeners.delete(id)
  }

  #begin(id: string, listener: PageListener): void {
    const { request } = listener
    const end = ({ code, message }: LinkError) => {
      this.#listeners.delete(id)
      this.#send({ id, failure: { code, message } })
    }
    if (request.name === 'snapshot') {
      listener.stop = this.#link.follow({ next: (item) => this.#send({ id, item }), end }, request.looker)
      return
    }
    if (request.name === 'ask') {
      listener.stop = this.#link.stream(request, { next: (item) => this.#send({ id, item }), end })
      return
    }
    const next = (item: StreamItem<'log'>) => {
      // Where it continues after the window was hidden.
      listener.request = { ...request, from: item.end }
      this.#send({ id, item })
    }
    listener.stop = this.#link.stream(request, { next, end })
  }

  #resume(): void {
    for (const [id, listener] of this.#listeners) if (!listener.stop) this.#begin(id, listener)
  }

  #pause(): void {
    for (const listener of this.#listeners.values()) {
      // An answer goes on while the window is hidden: begun again, it would ask the model a second time.
      if (listener.request.name === 'ask') continue
      listener.stop?.()
      listener.stop = undefined
    }
  }

  #clear(): void {
    for (const { stop } of this.#listeners.values()) stop?.()
    this.#listeners.clear()
    for (const asked of this.#asked.values()) asked.abort()
  }

  #send(push: Push): void {
    if (!this.#window.isDestroyed()) this.#window.webContents.send(channel, push)
  }
}
