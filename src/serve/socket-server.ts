import { chmod, lstat, rm } from 'node:fs/promises'
import { createServer, type Server, type Socket } from 'node:net'
import { ensureSocketFolder } from '../agent-core/state/socket-path.ts'
import { hasCode, parseJson } from '../agent-core/util/files.ts'
import { messageOf } from '../agent-core/util/message-of.ts'
import { LinkError, type Unsubscribe } from '../contract/client.ts'
import type { Answer, Query } from '../contract/queries.ts'
import { protocolVersion } from '../contract/snapshot.ts'
import { type AgentDoor, failuresTo, notUnderstood, requestTooLong } from './agent-door.ts'
import { type FeedOptions, feedSnapshots, feedStream, type SnapshotFeedOptions, snapshotJson } from './feeds.ts'
import {
  type AnswerFrame,
  type HelloFrame,
  LineReader,
  maxRequestBytes,
  probeSocket,
  request,
  type Request,
  requestFrame,
  verbs,
} from './frames.ts'

/** A client that asks on and on without reading is let go, before it costs the agent its memory. */
const maxUnreadBytes = 16 * 1_024 * 1_024
/** Follows and streams; a window needs two. */
const maxOpen = 16
/** With so many requests without an answer nothing more is read. */
const maxUnderWay = 64

interface SessionOptions {
  readonly socket: Socket
  readonly door: AgentDoor
  readonly version: string
  /** Answers with a URL that works once; throws LinkError. Absent = this agent serves no window. */
  readonly openWindow?: ((port: number | undefined) => Promise<string>) | undefined
  /** Called for defects of the agent itself, not for errors of a client. */
  readonly onError: (error: unknown) => void
}

/** Serves one connection until either side ends it. */
class Session {
  readonly #options: SessionOptions
  readonly #asLinkError: (error: unknown) => LinkError
  readonly #lines: LineReader
  readonly #open = new Map<string, Unsubscribe>()
  /** Queries that are not answered yet. */
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
      const message = `A connection can follow at most ${maxOpen} streams at once: end one, or open another connection.`
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

interface SocketServerOptions extends Omit<SessionOptions, 'socket'> {
  readonly socketPath: string
  readonly stateDir: string
}

export interface SocketServer extends AsyncDisposable {
  readonly connections: number
  /** Ends every connection and removes the socket. */
  close(): Promise<void>
}

type SocketServerResult =
  | { readonly ok: true; readonly server: SocketServer }
  | { readonly ok: false; readonly reason: 'taken' | 'unusable'; readonly message: string }

/** Windows, menus and terminals of one person; the next one waits in the kernel's queue. */
const maxConnections = 32

/** How long a closing server lets a client read what was already sent to it. */
const closeMs = 1_000

/**
 * Serves the agent to this user's own programs. A socket file whose agent is gone is replaced; the lock of the
 * state folder must be held, since two agents could both take the same file for a leftover.
 */
export async function serveOnSocket(options: SocketServerOptions): Promise<SocketServerResult> {
  const { socketPath, stateDir, ...session } = options
  const sessions = new Map<Socket, Session>()
  const server = createServer((socket) => {
    sessions.set(socket, new Session({ socket, ...session }))
    socket.once('close', () => sessions.delete(socket))
  })
  server.maxConnections = maxConnections
  try {
    await ensureSocketFolder(socketPath, stateDir)
    if (!(await listened(server, socketPath))) {
      if (await probeSocket(socketPath, stateDir)) return taken(socketPath)
      if (!(await lstat(socketPath)).isSocket()) throw new Error('there is a file in its place that is not a socket')
      await rm(socketPath)
      if (!(await listened(server, socketPath))) return taken(socketPath)
    }
    await chmod(socketPath, 0o600)
  } catch (error) {
    server.close()
    const why = messageOf(error)
    return { ok: false, reason: 'unusable', message: `The socket ${socketPath} cannot be used: ${why}.` }
  }
  server.on('error', session.onError)
  const close = () => closeServer(server, sessions)
  return {
    ok: true,
    server: {
      get connections() {
        return sessions.size
      },
      close,
      [Symbol.asyncDispose]: close,
    },
  }
}

function taken(socketPath: string): SocketServerResult {
  return { ok: false, reason: 'taken', message: `Another agent answers on the socket ${socketPath}.` }
}

/** False where something is in the way. */
function listened(server: Server, path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error) => {
      if (hasCode(error, 'EADDRINUSE')) resolve(false)
      else reject(error)
    }
    server.once('error', onError)
    server.listen(path, () => {
      server.off('error', onError)
      resolve(true)
    })
  })
}

function closeServer(server: Server, sessions: ReadonlyMap<Socket, Session>): Promise<void> {
  return new Promise((resolve) => {
    if (!server.listening) {
      resolve()
      return
    }
    const timer = setTimeout(() => {
      for (const socket of sessions.keys()) socket.destroy()
    }, closeMs).unref()
    server.close(() => {
      clearTimeout(timer)
      resolve()
    })
    for (const session of sessions.values()) session.close()
  })
}
