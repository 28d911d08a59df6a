import { connect } from 'node:net'
import { z } from 'zod'
import { requireOwnSocket } from '../agent-core/state/socket-path.ts'
import { hasCode } from '../agent-core/util/files.ts'
import { linkFailure, lookers } from '../contract/client.ts'
import { commandRequest, commandResult } from '../contract/commands.ts'
import { streamItem, streamRequest } from '../contract/log.ts'
import { query } from '../contract/queries.ts'
import { agentSnapshot } from '../contract/snapshot.ts'

export interface LineReaderOptions {
  readonly maxBytes: number
  readonly onLine: (line: string) => void
  /** Called once; what comes after is not looked at. */
  readonly onTooLong: () => void
}

/** Cuts a stream of bytes into lines and holds never more than one of them. */
export class LineReader {
  readonly #options: LineReaderOptions
  #pending: Buffer[] = []
  #pendingBytes = 0
  #ended = false

  constructor(options: LineReaderOptions) {
    this.#options = options
  }

  push(chunk: Buffer): void {
    let rest = chunk
    while (!this.#ended) {
      const newline = rest.indexOf(0x0a)
      const piece = newline < 0 ? rest : rest.subarray(0, newline)
      if (this.#pendingBytes + piece.length > this.#options.maxBytes) {
        this.stop()
        this.#options.onTooLong()
        return
      }
      this.#pending.push(piece)
      this.#pendingBytes += piece.length
      if (newline < 0) return
      const line = Buffer.concat(this.#pending).toString('utf8')
      this.#forget()
      rest = rest.subarray(newline + 1)
      if (line.trim() !== '') this.#options.onLine(line)
    }
  }

  /** Stops reading. */
  stop(): void {
    this.#ended = true
    this.#forget()
  }

  #forget(): void {
    this.#pending = []
    this.#pendingBytes = 0
  }
}

/** Whether a process of this user listens there; throws where that cannot be found out, such as StrangeSocketError. */
export async function probeSocket(path: string, stateDir: string): Promise<boolean> {
  await requireOwnSocket(path, stateDir)
  return new Promise((resolve, reject) => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', (error) => {
      if (isNobodyThere(error)) resolve(false)
      else reject(error)
    })
  })
}

/** There is no socket file, or no process listens on it. */
export const isNobodyThere = (error: unknown) => hasCode(error, 'ENOENT') || hasCode(error, 'ECONNREFUSED')

/** One JSON object per line, in both directions. A request this large is no request. */
export const maxRequestBytes = 64 * 1_024

/** A snapshot of thousands of services fits ten times; a client reads no more than this into memory. */
export const maxAnswerBytes = 64 * 1_024 * 1_024

/** Chosen by the client, a different id for each request; repeated in the answers to it. */
const id = z.string().min(1).max(100)

export const requestFrame = z.object({ id, verb: z.string().max(100) })

const port = z.int().min(0).max(65_535)

const requests = [
  /** With `follow` answered at once, then again whenever something has changed, until cancelled. */
  z.object({
    id,
    verb: z.literal('snapshot'),
    follow: z.boolean().default(false),
    looker: z.enum(lookers).default('window'),
  }),
  z.object({ id, verb: z.literal('command'), request: commandRequest }),
  z.object({ id, verb: z.literal('query'), query }),
  z.object({ id, verb: z.literal('stream'), stream: streamRequest }),
  /** Ends the follow or stream of this id, or withdraws the question; nothing answers it. */
  z.object({ id, verb: z.literal('cancel') }),
  /** Answered with the address of the window for a browser, which works once. */
  z.object({ id, verb: z.literal('openWindow'), port: port.optional() }),
] as const

export const request = z.discriminatedUnion('verb', requests)
export type Request = z.output<typeof request>
export type RequestInput = z.input<typeof request>

export const verbs: ReadonlySet<string> = new Set(requests.map((one) => one.shape.verb.value))

/** What a client must know before it reads anything else, in every version of the protocol. */
export const helloFrame = z.object({
  type: z.literal('hello'),
  protocol: z.int(),
  /** Version of the agent, for people. */
  version: z.string(),
})
export type HelloFrame = z.infer<typeof helloFrame>

export const answerFrame = z.discriminatedUnion('type', [
  z.object({ type: z.literal('snapshot'), id, snapshot: agentSnapshot }),
  z.object({ type: z.literal('result'), id, result: commandResult }),
  /** The one that belongs to the name of the query. */
  z.object({ type: z.literal('answer'), id, answer: z.unknown() }),
  z.object({ type: z.literal('item'), id, item: streamItem }),
  z.object({ type: z.literal('window'), id, url: z.string() }),
  /** Ends the request it answers; without an id, because the request had no readable one, it ends the connection. */
  linkFailure.extend({ type: z.literal('error'), id: id.optional() }),
])
export type AnswerFrame = z.infer<typeof answerFrame>
