import type { BrowserWindow } from 'electron'
import { LinkError, type AgentLink } from '../contract/client.ts'
import type { Answer, Query } from '../contract/queries.ts'

/** A page that asks for more has a defect. */
const maxQuestions = 100

/** The parts of a BrowserWindow that are used here. */
type PageWindow = Pick<BrowserWindow, 'on' | 'webContents'>

/** What one page has asked and not been answered; a page that is gone waits for nothing. */
export class PageQuestions {
  readonly #link: AgentLink
  readonly #asked = new Map<string, AbortController>()

  constructor(link: AgentLink, window: PageWindow) {
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
    if (this.#asked.size >= maxQuestions) throw new LinkError('refused', 'The window asks too much at once.')
    if (this.#asked.has(id)) throw new LinkError('refused', `The window already asks something as ${id}.`)
    const leaving = new AbortController()
    this.#asked.set(id, leaving)
    try {
      return await this.#link.query(query, leaving.signal)
    } finally {
      this.#asked.delete(id)
    }
  }

  withdraw(id: string): null {
    this.#asked.get(id)?.abort()
    return null
  }
}
