import type { Socket } from 'node:net'
import type { z } from 'zod'
import { parseJson } from '../agent-core/state/files.ts'
import { protocolVersion } from '../contract/snapshot.ts'
import { maxRequestBytes, requestFrame, snapshotRequest, type errorCodes, type ServerFrame } from './frames.ts'
import { LineReader } from './line-reader.ts'
import type { SnapshotSource } from './snapshot-source.ts'

/** At most four snapshots a second: more than a person can read, few enough to cost nothing. */
const pushIntervalMs = 250

/** A client that asks on and on without reading is let go, before it costs the agent its memory. */
const maxUnreadBytes = 16 * 1_024 * 1_024

export interface SessionOptions {
  readonly socket: Socket
  readonly source: SnapshotSource
  readonly version: string
  /** A snapshot that could not be had: a defect of ours, not of the client. */
  readonly onError: (error: unknown) => void
  /** Monotonic milliseconds. */
  readonly now?: () => number
}

/** Serves one connection until either side ends it. A follower that reads slowly is sent only the latest snapshot. */
export class Session {
  readonly #socket: Socket
  readonly #source: SnapshotSource
  readonly #onError: (error: unknown) => void
  readonly #now: () => number
  readonly #lines: LineReader
  #follow: { readonly id: string; readonly unsubscribe: () => void } | undefined
  #changed = false
  #lastPushAt = -Infinity
  #timer: NodeJS.Timeout | undefined

  constructor({ socket, source, version, onError, now = () => performance.now() }: SessionOptions) {
    this.#socket = socket
    this.#source = source
    this.#onError = onError
    this.#now = now
    this.#lines = new LineReader({
      maxBytes: maxRequestBytes,
      onLine: (line) => this.#receive(line),
      onTooLong: () =>
        this.#closeWith('frame-too-large', `A request must not be longer than ${maxRequestBytes / 1_024} KiB.`),
    })
    socket.on('data', (chunk: Buffer) => this.#lines.push(chunk))
    socket.on('drain', () => this.#pushSoon())
    // A client that vanished is no event for the agent; 'close' follows and cleans up.
    socket.on('error', () => socket.destroy())
    socket.on('close', () => this.#cleanUp())
    this.#send({ type: 'hello', protocol: protocolVersion, version })
  }

  /** Ends the connection after what was already sent. */
  close(): void {
    this.#cleanUp()
    this.#socket.end()
  }

  #receive(line: string): void {
    const value = parseJson(line)
    const request = requestFrame.safeParse(value)
    if (!request.success) {
      this.#closeWith('bad-frame', 'A request must be one line of JSON with the texts "id" and "verb".')
      return
    }
    const { id, verb } = request.data
    if (verb !== 'snapshot') {
      this.#sendError(id, 'unknown-verb', `This agent does not know the verb ${JSON.stringify(verb)}.`)
      return
    }
    const asked = snapshotRequest.safeParse(value)
    if (!asked.success)
      this.#sendError(id, 'bad-request', `This snapshot request is not one: ${firstIssue(asked.error)}.`)
    else if (!asked.data.follow) this.#sendSnapshot(id)
    else if (this.#follow === undefined) this.#startFollowing(id)
    else this.#sendError(id, 'busy', 'This connection already follows the snapshot: open another one.')
  }

  #startFollowing(id: string): void {
    const unsubscribe = this.#source.subscribe(() => {
      this.#changed = true
      this.#pushSoon()
    })
    this.#follow = { id, unsubscribe }
    this.#changed = true
    this.#pushSoon()
  }

  #pushSoon(): void {
    if (this.#follow === undefined || !this.#changed || this.#timer !== undefined) return
    if (this.#socket.writableNeedDrain) return
    const wait = this.#lastPushAt + pushIntervalMs - this.#now()
    if (wait > 0) {
      this.#timer = setTimeout(() => {
        this.#timer = undefined
        this.#pushSoon()
      }, Math.ceil(wait))
      return
    }
    this.#changed = false
    this.#lastPushAt = this.#now()
    this.#sendSnapshot(this.#follow.id)
  }

  /** Ages are counted from `now`, so it is the time of sending, however old the last change is. */
  #sendSnapshot(id: string): void {
    try {
      this.#send({ type: 'snapshot', id, snapshot: { ...this.#source.get(), now: new Date().toISOString() } })
    } catch (error) {
      this.#onError(error)
      this.#sendError(id, 'failed', 'The agent could not say what it does; its log says why.')
    }
  }

  #sendError(id: string | undefined, code: (typeof errorCodes)[number], message: string): void {
    this.#send({ type: 'error', ...(id === undefined ? {} : { id }), code, message })
  }

  #closeWith(code: (typeof errorCodes)[number], message: string): void {
    this.#lines.stop()
    this.#sendError(undefined, code, message)
    this.close()
  }

  #send(frame: ServerFrame): void {
    if (!this.#socket.writable) return
    this.#socket.write(`${JSON.stringify(frame)}\n`)
    if (this.#socket.writableLength > maxUnreadBytes) this.#socket.destroy()
  }

  #cleanUp(): void {
    this.#lines.stop()
    this.#follow?.unsubscribe()
    this.#follow = undefined
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}

const firstIssue = (error: z.ZodError) => {
  const [issue] = error.issues
  return `${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`.trim()
}
