import type { BrowserWindow } from 'electron'
import { type AgentLink, LinkError, type Looker, type Unsubscribe } from '../../contract/client.ts'
import type { StreamItem, StreamRequest } from '../../contract/log.ts'
import type { Answer, Query } from '../../contract/queries.ts'
import type { Push } from '../../contract/app-bridge.ts'
import { pushChannel } from '../ipc-channels.ts'
import { windowWords } from '../words.ts'

/** A page that asks for more has a defect. */
const maxListeners = 32

type Request = { readonly name: 'snapshot'; readonly looker?: Looker } | StreamRequest

/** The parts of a BrowserWindow that are used here. */
type PageWindow = Pick<BrowserWindow, 'on' | 'isVisible' | 'isDestroyed' | 'webContents'>

interface PageListener {
  request: Request
  /** Set while the window is seen. */
  stop?: Unsubscribe | undefined
}

/** The streams that one window follows. While the window is hidden nothing is requested from the agent and nothing sent. */
export class PageListeners {
  readonly #link: AgentLink
  readonly #window: PageWindow
  readonly #listeners = new Map<string, PageListener>()

  constructor(link: AgentLink, window: PageWindow) {
    this.#link = link
    this.#window = window
    window.on('show', () => this.#resume())
    window.on('hide', () => this.#pause())
    window.on('closed', () => this.#clear())
    // Another document has listeners of its own.
    window.webContents.on('did-navigate', () => this.#clear())
    window.webContents.on('render-process-gone', () => this.#clear())
  }

  /** Throws LinkError. */
  add(id: string, request: Request): void {
    if (this.#listeners.size >= maxListeners) throw new LinkError('refused', windowWords.followsTooMuch)
    if (this.#listeners.has(id)) throw new LinkError('refused', windowWords.follows(id))
    const listener: PageListener = { request }
    this.#listeners.set(id, listener)
    if (this.#window.isVisible()) this.#begin(id, listener)
  }

  remove(id: string): void {
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
    const next = (item: StreamItem) => {
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
      listener.stop?.()
      listener.stop = undefined
    }
  }

  #clear(): void {
    this.#pause()
    this.#listeners.clear()
  }

  #send(push: Push): void {
    if (!this.#window.isDestroyed()) this.#window.webContents.send(pushChannel, push)
  }
}

/** A page that asks for more has a defect. */
const maxQuestions = 100

/** The parts of a BrowserWindow that are used here. */
type AskingWindow = Pick<BrowserWindow, 'on' | 'webContents'>

/** What one page has asked and not been answered; a page that is gone waits for nothing. */
export class PageQuestions {
  readonly #link: AgentLink
  readonly #asked = new Map<string, AbortController>()

  constructor(link: AgentLink, window: AskingWindow) {
    this.#link = link
    const withdrawAll = () => {
      for (const id of [...this.#asked.keys()]) this.withdraw(id)
    }
    window.on('closed', withdrawAll)
    window.webContents.on('did-navigate', withdrawAll)
    window.webContents.on('render-process-gone', withdrawAll)
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

  withdraw(id: string): void {
    this.#asked.get(id)?.abort()
  }
}
