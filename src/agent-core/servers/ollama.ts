import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { link, rm, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { z } from 'zod'
import { formatBytes } from '../../contract/format.ts'
import { errorCode } from '../util/error-code.ts'
import { maxOllamaTextBytes, ollamaTexts } from '../models/source.ts'
import { parseJson, readIfThere } from '../util/files.ts'
import type { Daemon, DaemonAddress, DaemonContent, HoldOptions } from './daemon.ts'
import { answerWithinMs, asSentence, DaemonHttp, type Answer } from './daemon-http.ts'

const versionAnswer = z.object({ version: z.string().min(1).max(100) })
const tagsAnswer = z.object({
  models: z
    .array(
      z.object({
        name: z.string().max(1_000),
        digest: z.string().max(200),
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
const showAnswer = z.object({ modelfile: z.string() })
const errorAnswer = z.object({ error: z.string() })

/** For ever: nothing of Ollama's own leaves memory by the clock. Any client could change it, so that what happens is looked at all the same. */
const keepLoaded = -1
const unloadNow = 0

/** The models of an Ollama that runs: its own settings, and what it had before, stay as they are. */
export class Ollama implements Daemon {
  readonly #http: DaemonHttp

  constructor(address: DaemonAddress) {
    this.#http = new DaemonHttp({ address, product: 'Ollama', flag: '--ollama-port', wordsOf })
  }

  get title(): string {
    return this.#http.title
  }

  async version(signal: AbortSignal): Promise<string> {
    const { version } = await this.#http.known(versionAnswer, { method: 'GET', path: '/api/version', signal })
    return version
  }

  async hold(content: DaemonContent, { signal, needed, onStep, onLoad }: HoldOptions): Promise<string> {
    const { name } = content
    const tags = await this.#tags(signal)
    for (const { name: other } of tags.filter((tag) => isForgotten(name, tag.name, needed()))) {
      await this.remove(other, signal)
    }
    const known = tags.find((tag) => canonicalName(tag.name) === canonicalName(name))
    if (known === undefined) await this.#make(content, { signal, onStep })
    await this.#refuseRivals(name, needed(), signal)
    onLoad(name)
    const load = await this.#runModel(name, keepLoaded, signal)
    if (load.status !== 200) throw this.#refused(load, `${name} could not be loaded`)
    // By that name it is unloaded, so that whoever has it too must be known to need it.
    const { name: loaded = name } = (await this.#inMemory(name, signal)) ?? {}
    const isShared = canonicalName(loaded) !== canonicalName(name)
    // Names that are given here have no tag.
    return isShared && needed().has(canonicalName(loaded)) ? loaded.replace(/:latest$/, '') : name
  }

  async look(name: string, signal: AbortSignal) {
    const found = await this.#inMemory(name, signal)
    return found && { bytes: found.size, used: found.expires_at }
  }

  async #inMemory(name: string, signal: AbortSignal) {
    const models = await this.#running(signal)
    const wanted = canonicalName(name)
    const named = models.find((one) => canonicalName(one.name) === wanted)
    return named ?? (models.length === 0 ? undefined : this.#byOtherName(wanted, models, signal))
  }

  /** It has the weights of a file in memory once, whatever its models are called: with another context they would take each other's place. */
  async #refuseRivals(name: string, needed: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    const others = (await this.#running(signal)).filter(
      (one) => canonicalName(one.name) !== canonicalName(name) && needed.has(canonicalName(one.name)),
    )
    if (others.length === 0 || (await this.#byOtherName(canonicalName(name), others, signal))) return
    const weights = await this.#weightsOf(name, signal)
    for (const other of others) {
      if (weights === undefined || (await this.#weightsOf(other.name, signal)) !== weights) continue
      throw this.#http.failed(
        'it already holds these weights with a different context for another service of this agent, and holds them only once: give both services the same spec.contextSize, or stop the other.',
      )
    }
  }

  /** The file of the model's weights, as Ollama names it; undefined where it does not say. */
  async #weightsOf(name: string, signal: AbortSignal): Promise<string | undefined> {
    const question = { method: 'POST', path: '/api/show', body: { model: name }, signal } as const
    const { said } = await this.#http.ask({ ...question, withinMs: answerWithinMs })
    const lines = showAnswer.safeParse(said).data?.modelfile.split('\n') ?? []
    return lines.find((line) => line.startsWith('FROM ') && line.includes('sha256'))
  }

  async #running(signal: AbortSignal) {
    return (await this.#http.known(psAnswer, { method: 'GET', path: '/api/ps', signal })).models
  }

  async unload(name: string, signal: AbortSignal): Promise<void> {
    const answer = await this.#runModel(name, unloadNow, signal)
    if (answer.status !== 200 && answer.status !== 404) throw this.#refused(answer, `${name} could not be unloaded`)
  }

  async remove(name: string, signal: AbortSignal): Promise<void> {
    const answer = await this.#http.ask({
      method: 'DELETE',
      path: '/api/delete',
      body: { model: name },
      signal,
      withinMs: removeWithinMs,
    })
    if (answer.status !== 200 && answer.status !== 404) throw this.#refused(answer, `${name} could not be removed`)
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
    const { models } = await this.#http.known(tagsAnswer, { method: 'GET', path: '/api/tags', signal })
    return models
  }

  /** Without a prompt it only loads or unloads. A model for embeddings alone is loaded by an empty one. */
  async #runModel(name: string, keep: number, signal: AbortSignal): Promise<Answer> {
    const asked = { model: name, keep_alive: keep, stream: false }
    const answer = await this.#http.ask({ method: 'POST', path: '/api/generate', body: asked, signal })
    if (answer.status !== 400) return answer
    return this.#http.ask({
      method: 'POST',
      path: '/api/embed',
      body: { model: name, keep_alive: keep, input: '' },
      signal,
    })
  }

  async #make(
    { name, files, contextTokens }: DaemonContent,
    { signal, onStep }: Pick<HoldOptions, 'signal' | 'onStep'>,
  ) {
    const digests: Record<string, string> = {}
    for (const file of files) digests[basename(file)] = await this.#give(file, { signal, onStep })
    onStep(`${this.title} makes the model ${name}`)
    const { template, system, params } = await textsBeside(files[0] ?? '')
    const parameters = { ...params, ...(contextTokens !== undefined && { num_ctx: contextTokens }) }
    const asked = { model: name, files: digests, parameters, ...(template && { template }), ...(system && { system }) }
    let isDone = false as boolean
    const answer = await this.#http.ask({
      ...{ method: 'POST', path: '/api/create', body: asked, signal },
      onLine: (line) => {
        const failure = errorAnswer.safeParse(line)
        if (failure.success) throw this.#http.failed(`${name} could not be made: ${asSentence(failure.data.error)}`)
        isDone ||= statusLine.safeParse(line).data?.status === 'success'
      },
    })
    if (answer.status !== 200) throw this.#refused(answer, `${name} could not be made`)
    if (!isDone) throw this.#http.failed(`${name} could not be made: its answer was cut short.`)
    onStep(`${name} is made`)
  }

  /** Returns the digest by which Ollama knows the file. A link in its folder takes no room; where none can be made the file is sent. */
  async #give(file: string, { signal, onStep }: Pick<HoldOptions, 'signal' | 'onStep'>): Promise<string> {
    const { size } = await stat(file)
    const digest = `sha256:${await sha256Of(file, signal)}`
    const path = `/api/blobs/${digest}`
    const has = async () =>
      (await this.#http.ask({ method: 'HEAD', path, signal, withinMs: answerWithinMs })).status === 200
    if (await has()) {
      onStep(`${this.title} has ${basename(file)} already`)
      return digest
    }
    const place = await linked(file, digest)
    if (await has()) {
      onStep(`${basename(file)} is linked into the folder of ${this.title}`)
      return digest
    }
    if (place !== undefined) await rm(place, { force: true })
    onStep(`${formatBytes(size)} of ${basename(file)} are sent to ${this.title}`)
    const answer = await this.#http.ask({ method: 'POST', path, file, signal })
    if (answer.status !== 201 && answer.status !== 200) throw this.#refused(answer, `${basename(file)} was not taken`)
    onStep(`${basename(file)} is sent`)
    return digest
  }

  #refused(answer: Answer, what: string) {
    return this.#http.refusal(answer, what, (words) => (unableToLoad.test(words) ? upgradeAdvice : undefined))
  }
}

const wordsOf = (answer: unknown): string | undefined => errorAnswer.safeParse(answer).data?.error

const unableToLoad = /unable to load model|unknown model architecture/
const upgradeAdvice =
  'It may not know this kind of model, or the file is damaged: upgrade Ollama, or choose another model.'

const statusLine = z.object({ status: z.string() })

/** Removing deletes files of gigabytes. */
const removeWithinMs = 30_000

/** A model of ours that an agent before this one left. */
function isForgotten(name: string, other: string, needed: ReadonlySet<string>): boolean {
  const own = name.slice(0, name.indexOf('/') + 1)
  return other.startsWith(own) && !needed.has(canonicalName(other))
}

/** `host/namespace/model:tag`, as Ollama completes and compares it. */
export function canonicalName(name: string): string {
  const at = name.lastIndexOf('/')
  const [path, last] = [name.slice(0, Math.max(at, 0)), name.slice(at + 1)]
  const parts = path === '' ? [] : path.split('/')
  const whole = [...['registry.ollama.ai', 'library'].slice(0, Math.max(0, 2 - parts.length)), ...parts]
  return [...whole, last.includes(':') ? last : `${last}:latest`].join('/').toLowerCase()
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
