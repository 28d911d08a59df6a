import { createReadStream } from 'node:fs'
import { request, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { pipeline } from 'node:stream/promises'
import type { z } from 'zod'
import { sentence } from '../../contract/clean-text.ts'
import { hostPlatform } from '../platform/host.ts'
import { errorCode, ownFailure } from '../util/error-code.ts'
import { parseJson } from '../util/files.ts'
import { messageOf } from '../util/message-of.ts'
import { DaemonError, type DaemonAddress } from './daemon.ts'

/** The time limit of a question that a daemon answers at once, however busy it is. */
export const answerWithinMs = 2_000
/** A list of hundreds of models, which is read in one turn. */
const maxAnswerBytes = 256 * 1024
const maxLineBytes = 64 * 1024
const maxSaidBytes = 500

export interface Question {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE'
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
  /** Sent instead of a body. */
  readonly file?: string
  readonly signal: AbortSignal
  /** Absent = as long as it takes. */
  readonly withinMs?: number
  /** Called with each line of an answer that tells of its progress. */
  readonly onLine?: (line: unknown) => void
}

export interface Answer {
  readonly status: number
  /** Parsed; undefined where it is no JSON. */
  readonly said: unknown
  readonly cookies?: readonly string[] | undefined
}

interface DaemonHttpOptions {
  readonly address: DaemonAddress
  readonly product: string
  /** Names its port. */
  readonly flag: string
  /** What an answer says that went wrong; undefined where the daemon would not have answered so. */
  readonly wordsOf: (said: unknown) => string | undefined
}

/** Asks a daemon, and says in one sentence why there is no answer or what is wrong with it. Throws DaemonError. */
export class DaemonHttp {
  readonly title: string
  readonly #options: DaemonHttpOptions

  constructor(options: DaemonHttpOptions) {
    const { address, product } = options
    this.#options = options
    this.title = `${product} at ${address.host}:${address.port}`
  }

  /** What is answered at once. */
  async known<T>(schema: z.ZodType<T>, question: Question): Promise<T> {
    return this.parsed(schema, await this.ask({ ...question, withinMs: answerWithinMs }), question.path)
  }

  parsed<T>(schema: z.ZodType<T>, answer: Answer, path: string): T {
    const parsed = schema.safeParse(answer.said)
    if (answer.status === 200 && parsed.success) return parsed.data
    throw this.#options.wordsOf(answer.said) === undefined
      ? this.stranger(path, answer.status)
      : this.refusal(answer, path)
  }

  async ask(question: Question): Promise<Answer> {
    const { address, product } = this.#options
    const { signal, withinMs } = question
    const limit = withinMs === undefined ? undefined : AbortSignal.timeout(withinMs)
    try {
      return await exchange(address, question, limit ? AbortSignal.any([signal, limit]) : signal)
    } catch (error) {
      if (error instanceof DaemonError) throw error
      if (error instanceof ForeignListener)
        throw new DaemonError('foreign', this.#instead('belongs to another user, and is asked nothing'))
      if (limit?.aborted === true || signal.aborted) {
        throw new DaemonError('silent', `${this.title} does not answer.`, { cause: error })
      }
      const own = ownFailure(error)
      if (own !== undefined)
        throw new DaemonError('notAsked', `${this.title} could not be asked: ${own}.`, { cause: error })
      const isAbsent = errorCode(error) === 'ECONNREFUSED'
      const message = isAbsent
        ? `Nothing is listening at ${address.host}:${address.port}: ${product} is not running.`
        : `${this.title} broke the connection: ${messageOf(error)}.`
      throw new DaemonError(isAbsent ? 'absent' : 'failed', message, { cause: error })
    }
  }

  refusal({ status, said }: Answer, what: string, advice: (words: string) => string | undefined = () => undefined) {
    const told = this.#options.wordsOf(said)
    const words = told === undefined ? `it answered with status ${status}.` : asSentence(told)
    return this.failed([`${what}: ${words}`, advice(words)].filter((one) => one !== undefined).join(' '))
  }

  failed(what: string): DaemonError {
    return new DaemonError('failed', `${this.title}: ${what}`)
  }

  stranger(path: string, status: number): DaemonError {
    return new DaemonError('stranger', this.#instead(`is not ${this.#options.product} (${path}: status ${status})`))
  }

  #instead(what: string): string {
    const { address, product, flag } = this.#options
    return `What answers at ${address.host}:${address.port} ${what}: stop that program, or give the port of ${product} with ${flag}.`
  }
}

export const asSentence = (text: string): string => {
  const words = sentence(text, maxSaidBytes)
  return /[.!?…]$/.test(words) ? words : `${words}.`
}

/** Rejects with the system's error, or where the answer is longer than any of a daemon's. */
function exchange({ host, port }: DaemonAddress, question: Question, signal: AbortSignal): Promise<Answer> {
  const { method, path, headers, body, file, onLine } = question
  const text = body === undefined ? undefined : JSON.stringify(body)
  const content =
    text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
  return new Promise((resolve, reject) => {
    let isAnswered = false
    const asked = request({
      ...{ host, port, method, path, signal },
      createConnection: (_, done) => {
        const socket = connectOwn({ host, port }, signal, done)
        // A connection that ends before the request has it tells the request nothing; what an error says comes first.
        socket.once('close', () => setImmediate(() => isAnswered || reject(hungUp())))
        return undefined
      },
      headers: { ...headers, ...content },
    })
    asked.once('error', reject)
    asked.once('response', (answer) => {
      isAnswered = true
      const reading = answer.statusCode === 200 && onLine ? linesOf(answer, onLine) : jsonOf(answer)
      reading.then(
        (said) => resolve({ status: answer.statusCode ?? 0, said, cookies: answer.headers['set-cookie'] }),
        reject,
      )
    })
    if (file === undefined) asked.end(text)
    else void pipeline(createReadStream(file, { highWaterMark: 1024 * 1024 }), asked).catch(reject)
  })
}

class ForeignListener extends Error {}
const hungUp = () => new Error('socket hang up')

const platform = hostPlatform()

/** A connection to a program of this user: every user of a machine may listen at its loopback address, also where a daemon was a moment ago. */
function connectOwn(
  { host, port }: DaemonAddress,
  signal: AbortSignal,
  done: (error: Error | null, socket: Socket) => void,
): Socket {
  const socket = connect({ host, port, signal })
  const fail = (error: Error) => {
    done(error, socket)
    socket.destroy()
  }
  socket.once('error', fail)
  socket.once('connect', () => {
    const asked = platform.isListenerOwn(port, host)
    asked.then((isOwn) => {
      if (isOwn === true) done(null, socket)
      else fail(isOwn === false ? new ForeignListener() : hungUp())
    }, fail)
  })
  return socket
}

async function jsonOf(answer: IncomingMessage): Promise<unknown> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of answer as AsyncIterable<Buffer>) {
    bytes += piece.length
    if (bytes > maxAnswerBytes) throw new Error('the answer is too long')
    pieces.push(piece)
  }
  return parseJson(Buffer.concat(pieces).toString('utf8'))
}

/** A line that is cut, or no JSON, is no line of a daemon's. */
async function linesOf(answer: IncomingMessage, onLine: (line: unknown) => void): Promise<undefined> {
  answer.setEncoding('utf8')
  let pending = ''
  for await (const piece of answer as AsyncIterable<string>) {
    const lines = (pending + piece).split('\n')
    pending = lines.pop() ?? ''
    if (pending.length > maxLineBytes) throw new Error('a line of the answer is too long')
    for (const line of lines) if (line.trim() !== '') onLine(parseJson(line))
  }
  if (pending.trim() !== '') onLine(parseJson(pending))
}
