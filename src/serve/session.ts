import type { Socket } from 'node:net'
import { parseJson } from '../agent-core/util/files.ts'
import { LinkError, type Unsubscribe } from '../contract/client.ts'
import type { Answer, Query } from '../contract/queries.ts'
import { protocolVersion } from '../contract/snapshot.ts'
import type { AgentDoor } from './agent-door.ts'
import { failuresTo, notUnderstood, requestTooLong } from './failures.ts'
import { feedSnapshots, feedStream, type FeedOptions, type SnapshotFeedOptions } from './feeds.ts'
import {
  maxRequestBytes,
  request,
  requestFrame,
  verbs,
  type AnswerFrame,
  type HelloFrame,
  type Request,
} from './frames.ts'
import { LineReader } from './line-reader.ts'
import { snapshotJson } from './snapshot-json.ts'

/** A client that asks on and on without reading is let go, before it costs the agent its memory. */
const maxUnreadBytes = 16 * 1_024 * 1_024
/** Follows and streams; a window needs two. */
const maxOpen = 16
/** With so many requests without an answer nothing more is read. */
const maxUnderWay = 64

export interface SessionOptions {
  readonly socket: Socket
  readonly door: AgentDoor
  readonly version: string
  /** Answers with a URL that works once; throws LinkError. Absent = this agent serves no window. */
  readonly openWindow?: ((port: number | undefined) => Promise<string>) | undefined
  /** A defect of ours, not of the client. */
  readonly onError: (error: unknown) => void
}

/** Serves one connection until either side ends it. */
export class Session {
  readonly #options: SessionOptions
  readonly #asLinkError: (error: unknown) => LinkError
  readonly #lines: LineReader
  readonly #open = new Map<string, Unsubscribe>()
  /** Questions without an answer. */
  readonly #asked = new Map<string, AbortController>()
  #underWay = 0

  constructor(options: SessionOptions) {
    this.#options = options
    this.#asLinkError = failuresTo(options.onError)
    this.#lines = new LineReader({
      maxBytes: maxRequestBytes,
      onLine: (line) => this.#receive(line),
      onTooLong: () => this.#closeWith(requestTooLong(maxRequestBytes)),
    })
    const { socket, version } = options
    socket.setMaxListeners(maxOpen + 10)
    socket.on('data', (chunk: Buffer) => this.#lines.push(chunk))
    // A client that vanished is no event for the agent; 'close' follows and cleans up.
    socket.on('error', () => socket.destroy())
    socket.on('close', () => this.#cleanUp())
    this.#send({ type: 'hello', protocol: protocolVersion, version })
  }

  /** Ends the connection after what was already sent. */
  close(): void {
    this.#cleanUp()
    this.#options.socket.end()
  }

  #receive(line: string): void {
    const value = parseJson(line)
    const frame = requestFrame.safeParse(value)
    if (!frame.success) {
      const message = 'A request must be one line of JSON with the texts "id" and "verb".'
      this.#closeWith(new LinkError('misunderstood', message))
      return
    }
    const { id, verb } = frame.data
    if (!verbs.has(verb)) {
      this.#sendError(id, new LinkError('misunderstood', `This agent does not know the verb ${JSON.stringify(verb)}.`))
      return
    }
    const asked = request.safeParse(value)
    if (asked.success) this.#answer(asked.data)
    else this.#sendError(id, notUnderstood(`${verb} request`, asked.error))
  }

  #answer(asked: Request): void {
    const { door, openWindow } = this.#options
    const { id } = asked
    switch (asked.verb) {
      case 'snapshot':
        if (asked.follow) this.#listen(id, (feed) => this.#feedSnapshots(id, { ...feed, looker: asked.looker }))
        else void this.#reply(id, async () => ({ type: 'snapshot', id, snapshot: await door.look() }))
        return
      case 'command':
        void this.#reply(id, async () => ({ type: 'result', id, result: await door.command(asked.request) }))
        return
      case 'query':
        if (this.#asked.has(id)) this.#closeWith(idInUse(id))
        else void this.#reply(id, async () => ({ type: 'answer', id, answer: await this.#query(id, asked.query) }))
        return
      case 'stream':
        this.#listen(id, (feed) =>
          feedStream(feed, asked.stream, {
            next: (item) => this.#send({ type: 'item', id, item }),
            end: (error) => this.#ended(id, error),
          }),
        )
        return
      case 'cancel':
        this.#open.get(id)?.()
        this.#open.delete(id)
        this.#asked.get(id)?.abort()
        return
      case 'openWindow':
        void this.#reply(id, async () => {
          if (!openWindow) throw new LinkError('refused', 'This agent serves no window.')
          return { type: 'window', id, url: await openWindow(asked.port) }
        })
    }
  }

  async #query(id: string, query: Query): Promise<Answer> {
    const leaving = new AbortController()
    this.#asked.set(id, leaving)
    try {
      return await this.#options.door.query(query, leaving.signal)
    } finally {
      this.#asked.delete(id)
    }
  }

  #feedSnapshots(id: string, feed: SnapshotFeedOptions): Unsubscribe {
    return feedSnapshots(feed, {
      next: (snapshot) =>
        this.#write(`{"type":"snapshot","id":${JSON.stringify(id)},"snapshot":${snapshotJson(snapshot)}}`),
      end: (error) => this.#ended(id, error),
    })
  }

  async #reply(id: string, work: () => Promise<AnswerFrame>): Promise<void> {
    const { socket } = this.#options
    this.#underWay += 1
    if (this.#underWay >= maxUnderWay) socket.pause()
    try {
      this.#send(await work())
    } catch (error) {
      this.#sendError(id, this.#asLinkError(error))
    }
    this.#underWay -= 1
    if (this.#underWay < maxUnderWay) socket.resume()
  }

  #listen(id: string, begin: (feed: FeedOptions) => Unsubscribe): void {
    if (this.#open.has(id)) {
      this.#closeWith(idInUse(id))
    } else if (this.#open.size >= maxOpen) {
      const message = `A connection follows at most ${maxOpen} things at once: end one, or open another connection.`
      this.#sendError(id, new LinkError('refused', message))
    } else {
      const { door, socket } = this.#options
      this.#open.set(id, () => undefined)
      const stop = begin({ door, writable: socket, asLinkError: this.#asLinkError })
      // It may have ended already.
      if (this.#open.has(id)) this.#open.set(id, stop)
    }
  }

  #ended(id: string, error: LinkError): void {
    this.#open.delete(id)
    this.#sendError(id, error)
  }

  #sendError(id: string | undefined, { code, message }: LinkError): void {
    this.#send({ type: 'error', ...(id !== undefined && { id }), code, message })
  }

  #closeWith(error: LinkError): void {
    this.#lines.stop()
    this.#sendError(undefined, error)
    this.close()
  }

  #send(frame: HelloFrame | AnswerFrame): void {
    this.#write(JSON.stringify(frame))
  }

  #write(line: string): void {
    const { socket } = this.#options
    if (!socket.writable) return
    socket.write(`${line}\n`)
    if (socket.writableLength > maxUnreadBytes) socket.destroy()
  }

  #cleanUp(): void {
    this.#lines.stop()
    for (const stop of this.#open.values()) stop()
    this.#open.clear()
    for (const leaving of this.#asked.values()) leaving.abort()
  }
}

const idInUse = (id: string) =>
  new LinkError('misunderstood', `The id ${JSON.stringify(id)} is in use on this connection.`)
