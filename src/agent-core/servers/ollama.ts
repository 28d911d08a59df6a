import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { link, rm, stat } from 'node:fs/promises'
import { request, type IncomingMessage } from 'node:http'
import { homedir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { z } from 'zod'
import { sentence } from '../../contract/clean-text.ts'
import { formatBytes } from '../../contract/format.ts'
import { errorCode } from '../util/error-code.ts'
import { maxOllamaTextBytes, ollamaTexts } from '../models/source.ts'
import { parseJson, readIfThere } from '../util/files.ts'
import { messageOf } from '../util/message-of.ts'
import { DaemonError, type Daemon, type DaemonAddress, type DaemonContent, type HoldOptions } from './daemon.ts'

/** Of a question that Ollama answers at once, however busy it is. */
const answerWithinMs = 2_000
/** A list of thousands of models; beyond that it is another program. */
const maxAnswerBytes = 8 * 1024 * 1024
const maxLineBytes = 64 * 1024
const maxSaidBytes = 500

const versionAnswer = z.object({ version: z.string().min(1).max(100) })
const tagsAnswer = z.object({
  models: z
    .array(
      z.object({
        name: z.string().max(1_000),
        digest: z.string().max(200),
        remote_host: z.string().max(1_000).optional(),
        remote_model: z.string().max(1_000).optional(),
      }),
    )
    .nullable()
    .transform((models) => models ?? []),
})
const psAnswer = z.object({
  models: z
    .array(
      z.object({
        name: z.string().max(1_000),
        digest: z.string().max(200),
        size: z.number().nonnegative(),
        expires_at: z.iso.datetime({ offset: true }).transform((text) => Date.parse(text)),
      }),
    )
    .nullable()
    .transform((models) => models ?? []),
})
const errorAnswer = z.object({ error: z.string() })

/** For ever: nothing of Ollama's own leaves memory by the clock. Any client could change it, so that what happens is looked at all the same. */
const keepLoaded = -1
const unloadNow = 0

interface Question {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'DELETE'
  readonly path: string
  readonly body?: unknown
  /** Sent instead of a body. */
  readonly file?: string
  readonly signal: AbortSignal
  /** Absent = as long as it takes. */
  readonly withinMs?: number
  /** Called with each line of an answer that tells of its progress. */
  readonly onLine?: (line: unknown) => void
}

interface Answer {
  readonly status: number
  /** Parsed; undefined where it is no JSON. */
  readonly said: unknown
}

/** The models of an Ollama that runs: its own settings, and what it had before, stay as they are. */
export class Ollama implements Daemon {
  readonly #address: DaemonAddress
  readonly title: string

  constructor(address: DaemonAddress) {
    this.#address = address
    this.title = `Ollama at ${address.host}:${address.port}`
  }

  async version(signal: AbortSignal): Promise<string> {
    const { version } = await this.#known(versionAnswer, { method: 'GET', path: '/api/version', signal })
    return version
  }

  async hold(content: DaemonContent, { signal, needed, onStep }: HoldOptions): Promise<void> {
    const { name } = content
    const tags = await this.#tags(signal)
    for (const { name: other } of tags.filter((tag) => isForgotten(content, tag.name, needed()))) {
      await this.remove(other, signal)
    }
    const known = tags.find((tag) => canonicalName(tag.name) === canonicalName(name))
    const remote = known?.remote_host ?? known?.remote_model
    if (remote !== undefined && remote !== '') {
      throw this.#failed(
        `${name} is answered by ${sentence(remote, maxSaidBytes)} and not by this machine: choose a model that runs here.`,
      )
    }
    if (known === undefined) {
      if (content.files.length === 0) throw this.#failed(`it has no model ${name}.`)
      await this.#make(content, { signal, onStep })
    }
    onStep(`${this.title} loads ${name}`)
    const load = await this.#runModel(name, keepLoaded, signal)
    if (load.status !== 200) throw this.#refusal(load, `${name} could not be loaded`)
  }

  async look(name: string, signal: AbortSignal) {
    const { models } = await this.#known(psAnswer, { method: 'GET', path: '/api/ps', signal })
    const wanted = canonicalName(name)
    const named = models.find((one) => canonicalName(one.name) === wanted)
    const found = named ?? (models.length === 0 ? undefined : await this.#byOtherName(wanted, models, signal))
    return found && { bytes: found.size, used: found.expires_at }
  }

  async unload(name: string, signal: AbortSignal): Promise<void> {
    const answer = await this.#runModel(name, unloadNow, signal)
    if (answer.status !== 200 && answer.status !== 404) throw this.#refusal(answer, `${name} could not be unloaded`)
  }

  async remove(name: string, signal: AbortSignal): Promise<void> {
    const answer = await this.#ask({
      method: 'DELETE',
      path: '/api/delete',
      body: { model: name },
      signal,
      withinMs: removeWithinMs,
    })
    if (answer.status !== 200 && answer.status !== 404) throw this.#refusal(answer, `${name} could not be removed`)
  }

  canonical(name: string): string {
    return canonicalName(name)
  }

  /** Two tags of one model share what is in memory, which has the name that it was loaded by. */
  async #byOtherName<T extends { readonly digest: string }>(wanted: string, models: readonly T[], signal: AbortSignal) {
    const tag = (await this.#tags(signal)).find((one) => canonicalName(one.name) === wanted)
    return tag && models.find(({ digest }) => digest === tag.digest)
  }

  async #tags(signal: AbortSignal) {
    const { models } = await this.#known(tagsAnswer, { method: 'GET', path: '/api/tags', signal })
    return models
  }

  /** Without a prompt it only loads or unloads. A model for embeddings alone is loaded by an empty one. */
  async #runModel(name: string, keep: number, signal: AbortSignal): Promise<Answer> {
    const asked = { model: name, keep_alive: keep, stream: false }
    const answer = await this.#ask({ method: 'POST', path: '/api/generate', body: asked, signal })
    if (answer.status !== 400) return answer
    return this.#ask({ method: 'POST', path: '/api/embed', body: { model: name, keep_alive: keep, input: '' }, signal })
  }

  async #make(
    { name, files, contextTokens }: DaemonContent,
    { signal, onStep }: Pick<HoldOptions, 'signal' | 'onStep'>,
  ) {
    const digests: Record<string, string> = {}
    for (const file of files) digests[basename(file)] = await this.#give(file, { signal, onStep })
    onStep(`${this.title} makes ${name}`)
    const { template, system, params } = await textsBeside(files[0] ?? '')
    const parameters = { ...params, ...(contextTokens !== undefined && { num_ctx: contextTokens }) }
    const asked = { model: name, files: digests, parameters, ...(template && { template }), ...(system && { system }) }
    let isDone = false as boolean
    const answer = await this.#ask({
      ...{ method: 'POST', path: '/api/create', body: asked, signal },
      onLine: (line) => {
        const failure = errorAnswer.safeParse(line)
        if (failure.success) throw this.#failed(`${name} could not be made: ${said(failure.data.error)}`)
        isDone ||= statusLine.safeParse(line).data?.status === 'success'
      },
    })
    if (answer.status !== 200) throw this.#refusal(answer, `${name} could not be made`)
    if (!isDone) throw this.#failed(`${name} could not be made: its answer broke off.`)
  }

  /** Returns the digest by which Ollama knows the file. A link in its folder takes no room; where none can be made the file is sent. */
  async #give(file: string, { signal, onStep }: Pick<HoldOptions, 'signal' | 'onStep'>): Promise<string> {
    const { size } = await stat(file)
    const digest = `sha256:${await sha256Of(file, signal)}`
    const path = `/api/blobs/${digest}`
    const has = async () => (await this.#ask({ method: 'HEAD', path, signal, withinMs: answerWithinMs })).status === 200
    if (await has()) return digest
    const place = await linked(file, digest)
    if (await has()) return digest
    if (place !== undefined) await rm(place, { force: true })
    onStep(`${formatBytes(size)} of ${basename(file)} are sent to ${this.title}`)
    const answer = await this.#ask({ method: 'POST', path, file, signal })
    if (answer.status !== 201 && answer.status !== 200) throw this.#refusal(answer, `${basename(file)} was not taken`)
    return digest
  }

  async #known<T>(schema: z.ZodType<T>, question: Question): Promise<T> {
    const { status, said: answer } = await this.#ask({ ...question, withinMs: answerWithinMs })
    const parsed = schema.safeParse(answer)
    if (status === 200 && parsed.success) return parsed.data
    if (errorAnswer.safeParse(answer).success) throw this.#refusal({ status, said: answer }, question.path)
    throw new DaemonError(
      'stranger',
      `What answers at ${this.#address.host}:${this.#address.port} is not Ollama (${question.path}: status ${status}): stop that program, or say with --ollama-port where Ollama listens.`,
    )
  }

  async #ask(question: Question): Promise<Answer> {
    const { signal, withinMs } = question
    const limit = withinMs === undefined ? undefined : AbortSignal.timeout(withinMs)
    try {
      return await exchange(this.#address, question, limit ? AbortSignal.any([signal, limit]) : signal)
    } catch (error) {
      if (error instanceof DaemonError) throw error
      if (limit?.aborted === true && !signal.aborted) {
        throw new DaemonError('silent', `${this.title} does not answer.`, { cause: error })
      }
      const isAbsent = errorCode(error) === 'ECONNREFUSED'
      const message = isAbsent
        ? `Nobody listens at ${this.#address.host}:${this.#address.port}: Ollama does not run.`
        : `${this.title} broke off: ${messageOf(error)}.`
      throw new DaemonError(isAbsent ? 'absent' : 'failed', message, { cause: error })
    }
  }

  #refusal({ status, said: answer }: Answer, what: string): DaemonError {
    const failure = errorAnswer.safeParse(answer)
    const words = failure.success ? said(failure.data.error) : `it answered with status ${status}.`
    return this.#failed(`${what}: ${words}${unableToLoad.test(words) ? ` ${upgradeAdvice}` : ''}`)
  }

  #failed(what: string): DaemonError {
    return new DaemonError('failed', `${this.title}: ${what}`)
  }
}

const unableToLoad = /unable to load model|unknown model architecture/
const upgradeAdvice =
  'It may not know this kind of model, or the file is damaged: upgrade Ollama, or choose another model.'

const statusLine = z.object({ status: z.string() })

/** Removing deletes files of gigabytes. */
const removeWithinMs = 30_000

/** A model of ours that an agent before this one left. */
function isForgotten({ name, isOurs }: DaemonContent, other: string, needed: ReadonlySet<string>): boolean {
  const own = name.slice(0, name.indexOf('/') + 1)
  return isOurs && other.startsWith(own) && !needed.has(canonicalName(other))
}

/** `host/namespace/model:tag`, as Ollama completes and compares it. */
export function canonicalName(name: string): string {
  const at = name.lastIndexOf('/')
  const [path, last] = [name.slice(0, Math.max(at, 0)), name.slice(at + 1)]
  const parts = path === '' ? [] : path.split('/')
  const whole = [...['registry.ollama.ai', 'library'].slice(0, Math.max(0, 2 - parts.length)), ...parts]
  return [...whole, last.includes(':') ? last : `${last}:latest`].join('/').toLowerCase()
}

const said = (text: string): string => {
  const words = sentence(text, maxSaidBytes)
  return /[.!?…]$/.test(words) ? words : `${words}.`
}

/** What came with the model from Ollama's library. */
async function textsBeside(file: string) {
  const read = (name: string) => readIfThere(join(dirname(file), name), maxOllamaTextBytes)
  const [template, system, params] = await Promise.all([
    ...[read(ollamaTexts.template), read(ollamaTexts.system), read(ollamaTexts.params)],
  ])
  return { template, system, params: paramsText.safeParse(parseJson(params ?? '')).data }
}

const paramsText = z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.array(z.string())]))

async function sha256Of(file: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file, { highWaterMark: 1024 * 1024 }), hash, { signal })
  return hash.digest('hex')
}

/**
 * A name for the file where an Ollama of this person keeps its files unless told otherwise, which is taken back where it is not the one that is
 * asked: that one is sent the file.
 */
async function linked(file: string, digest: string): Promise<string | undefined> {
  const place = join(homedir(), '.ollama', 'models', 'blobs', digest.replace(':', '-'))
  try {
    await link(file, place)
    return place
  } catch (error) {
    // Another volume, no such folder, no right to it, or a file of that name.
    if (errorCode(error) !== undefined) return undefined
    throw error
  }
}

/** Rejects with the system's error, or where the answer is longer than any of Ollama's. */
function exchange({ host, port }: DaemonAddress, question: Question, signal: AbortSignal): Promise<Answer> {
  const { method, path, body, file, onLine } = question
  const text = body === undefined ? undefined : JSON.stringify(body)
  return new Promise((resolve, reject) => {
    const asked = request({
      ...{ host, port, method, path, signal, agent: false },
      headers:
        text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) },
    })
    asked.once('error', reject)
    asked.once('response', (answer) => {
      const reading = answer.statusCode === 200 && onLine ? linesOf(answer, onLine) : jsonOf(answer)
      reading.then((saidThere) => resolve({ status: answer.statusCode ?? 0, said: saidThere }), reject)
    })
    if (file === undefined) asked.end(text)
    else void pipeline(createReadStream(file, { highWaterMark: 1024 * 1024 }), asked).catch(reject)
  })
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

/** A line that is cut, or no JSON, is no line of Ollama's. */
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
