import { createHash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdir, rm, stat, symlink } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import { errorCode } from '../util/error-code.ts'
import { expandHome, hasCode, parseJson } from '../util/files.ts'
import { pause } from '../util/pause.ts'
import type { Daemon, DaemonAddress, DaemonContent, HoldOptions, InMemory } from './daemon.ts'
import { answerWithinMs, DaemonHttp, type Answer, type Question } from './daemon-http.ts'

export const defaultOmlxPort = 8_000

/** While it loads what is pinned there, it answers 503. */
const healthAnswer = z.object({
  status: z.enum(['healthy', 'loading']),
  engine_pool: z.object({}).nullable(),
})
const figure = z.number().nonnegative().nullish()
const statusAnswer = z.object({
  version: z.string().min(1).max(100),
  active_requests: figure,
  waiting_requests: figure,
})
const modelsAnswer = z.object({
  models: z.array(
    z.object({
      id: z.string().max(1_000),
      model_path: z.string().max(4_096),
      loaded: z.boolean(),
      is_loading: z.boolean().nullish(),
      estimated_size: figure,
      actual_size: figure,
      /** In seconds since 1970, as of the start of a request. */
      last_access: figure,
      /** Set where it is another name and other settings for that model. */
      source_model_id: z.string().nullish(),
      /** Several machines compute it. */
      distributed: z.boolean().nullish(),
    }),
  ),
})
type Listed = z.infer<typeof modelsAnswer>['models'][number]

/** Below `/v1` and elsewhere. */
const errorAnswer = z.union([
  z.object({ error: z.object({ message: z.string() }) }).transform(({ error }) => error.message),
  z.object({ detail: z.string() }).transform(({ detail }) => detail),
])
const wordsOf = (answer: unknown): string | undefined => errorAnswer.safeParse(answer).data

/** It loads that model for somebody else. */
const loadAgainMs = 1_000

/**
 * The models of an oMLX. One that a person runs keeps its settings, and gets no model that it does not list by itself; one that was started here
 * gets links to those that services need.
 */
export class Omlx implements Daemon {
  readonly title: string
  readonly #http: DaemonHttp
  readonly #admin: string
  /** Its folder, where it was started here. */
  readonly #home: string | undefined
  #apiKey: string | undefined
  /** The key is shown to nobody else. */
  #isOmlx = false
  /** Where what is meant lies, so that another model that gets its name is not taken for it. */
  #path: string | undefined

  constructor(address: DaemonAddress, home?: string) {
    this.#http = new DaemonHttp({ address, product: 'oMLX', flag: '--omlx-port', wordsOf })
    this.title = this.#http.title
    this.#admin = `http://${address.host}:${address.port}/admin`
    this.#home = home
    this.#apiKey = apiKeyIn(this.#settingsFile)
  }

  get apiKey(): string | undefined {
    return this.#apiKey
  }

  async version(signal: AbortSignal): Promise<string> {
    return (await this.#status(signal)).version
  }

  async requests(signal: AbortSignal): Promise<number> {
    const { active_requests: active, waiting_requests: waiting } = await this.#status(signal)
    return (active ?? 0) + (waiting ?? 0)
  }

  async hold({ files: [folder = ''] }: DaemonContent, { signal, onLoad }: HoldOptions): Promise<string> {
    const model = await this.#modelIn(folder, signal)
    this.#path = model.model_path
    if (model.loaded) return model.id
    let isReloaded = false
    onLoad(model.id)
    for (;;) {
      const answer = await this.#ask({ method: 'POST', path: pathOf(model.id, 'load'), signal })
      if (answer.status === 200) return model.id
      if (answer.status !== 409) throw this.#notLoaded(model.id, answer)
      // What failed once is tried again where nobody else decides that.
      if (this.#home !== undefined && !isReloaded && isSticky.test(wordsOf(answer.said) ?? '')) {
        isReloaded = true
        await this.#reload(signal)
        continue
      }
      if ((await this.#listed(model.id, signal))?.is_loading !== true) throw this.#notLoaded(model.id, answer)
      await pause(loadAgainMs, signal)
      signal.throwIfAborted()
    }
  }

  async look(name: string, signal: AbortSignal): Promise<InMemory | undefined> {
    const model = await this.#listed(name, signal)
    const isLoading = model?.is_loading === true
    if (!model || (!model.loaded && !isLoading)) return undefined
    this.#path ??= model.model_path
    if (model.model_path !== this.#path) return undefined
    const bytes = model.actual_size ?? model.estimated_size ?? 0
    return { bytes, used: model.last_access ?? 0, ...(isLoading && { isLoading }) }
  }

  /** Cuts the requests that it works at. */
  async unload(name: string, signal: AbortSignal): Promise<void> {
    const answer = await this.#ask({ method: 'POST', path: pathOf(name, 'unload'), signal })
    // It is not in memory, or not listed any longer.
    if ([200, 400, 404].includes(answer.status)) return
    throw this.#http.refusal(answer, `${name} could not be unloaded`)
  }

  /** Nothing in it was made here. */
  remove(): Promise<void> {
    return Promise.resolve()
  }

  canonical(name: string): string {
    return name
  }

  async #modelIn(folder: string, signal: AbortSignal): Promise<Listed> {
    const found = await this.#found(folder, await this.#models(signal))
    if (found) return found
    if (this.#home !== undefined) {
      await linkInto(modelsIn(this.#home), folder)
      await this.#reload(signal)
      const linked = await this.#found(folder, await this.#models(signal))
      if (linked) return linked
      throw this.#http.failed(`it finds no model to serve in ${folder}: choose another model, or mlx-lm.`)
    }
    throw await this.#unlisted(folder, signal)
  }

  async #found(folder: string, models: readonly Listed[]): Promise<Listed | undefined> {
    const wanted = await identityOf(folder)
    for (const model of models) {
      if (wanted === undefined || (await identityOf(model.model_path)) !== wanted) continue
      if (model.distributed !== true) return model
      throw this.#http.failed(
        `${model.id} runs across several machines and not on this one alone: undo that at ${this.#admin}, or choose another model.`,
      )
    }
    return undefined
  }

  async #unlisted(folder: string, signal: AbortSignal) {
    const models = await this.#models(signal)
    const name = nameOf(folder)
    const namesake = models.find(({ id }) => id === name)
    const add = `add ${dirname(folder)} to its model folders at ${this.#admin}, and reload its models there`
    return this.#http.failed(
      namesake
        ? `${name} is a model in ${namesake.model_path} there, and not the one in ${folder}: name that folder as spec.source of the Model, or take it out of its model folders and ${add}.`
        : `it lists no model in ${folder}: ${add}.`,
    )
  }

  async #listed(name: string, signal: AbortSignal): Promise<Listed | undefined> {
    return (await this.#models(signal)).find(({ id }) => id === name)
  }

  async #models(signal: AbortSignal): Promise<Listed[]> {
    const { models } = await this.#known(modelsAnswer, '/v1/models/status', signal)
    return models.filter(({ source_model_id: source }) => source === undefined || source === null)
  }

  #status(signal: AbortSignal) {
    return this.#known(statusAnswer, '/api/status', signal)
  }

  async #known<T>(schema: z.ZodType<T>, path: string, signal: AbortSignal): Promise<T> {
    return this.#http.parsed(schema, await this.#ask({ method: 'GET', path, signal, withinMs: answerWithinMs }), path)
  }

  /** Asks with the key that counts now. */
  async #ask(question: Question): Promise<Answer> {
    if (!this.#isOmlx) await this.#requireOmlx(question.signal)
    const file = this.#settingsFile
    const key = apiKeyIn(file)
    const answer = await this.#http.ask({ ...question, headers: { ...question.headers, ...bearer(key) } })
    if (answer.status !== 401) {
      this.#apiKey = key
      return answer
    }
    const problem =
      key === undefined
        ? `it asks for an API key, but ${file} has none (auth.api_key)`
        : `it rejects the API key in ${file} (auth.api_key)`
    throw this.#http.failed(
      `${problem}: set its key at ${this.#admin}, which writes it there, or start this agent with OMLX_BASE_PATH as the folder of its settings.json.`,
    )
  }

  /** Where it keeps its key. */
  get #settingsFile(): string {
    return settingsIn(this.#home ?? omlxBasePath())
  }

  /** It reads its folders again, and forgets what it could not load; only of one that was started here. */
  async #reload(signal: AbortSignal): Promise<void> {
    const answer = await this.#askAsAdmin({ method: 'POST', path: '/admin/api/reload', signal })
    if (answer.status !== 200) throw this.#http.refusal(answer, 'its models could not be listed again')
  }

  async #askAsAdmin(question: Question): Promise<Answer> {
    const { signal } = question
    const login = { method: 'POST', path: '/admin/api/login', body: { api_key: this.#apiKey }, signal } as const
    const { cookies } = await this.#ask({ ...login, withinMs: answerWithinMs })
    const headers = { cookie: (cookies ?? []).map((cookie) => cookie.split(';')[0]).join('; ') }
    return this.#ask({ ...question, headers })
  }

  /** The one question that it answers without its key. */
  async #requireOmlx(signal: AbortSignal): Promise<void> {
    const path = '/health'
    const { status, said } = await this.#http.ask({ method: 'GET', path, signal, withinMs: answerWithinMs })
    if ((status !== 200 && status !== 503) || !healthAnswer.safeParse(said).success)
      throw this.#http.stranger(path, status)
    this.#isOmlx = true
  }

  #notLoaded(name: string, answer: Answer) {
    return this.#http.refusal(answer, `${name} could not be loaded`, (words) =>
      isSticky.test(words)
        ? `The agent tries again only after its models have been reloaded at ${this.#admin}, or oMLX has restarted.`
        : undefined,
    )
  }
}

const bearer = (key: string | undefined) => (key === undefined ? {} : { authorization: `Bearer ${key}` })

const settingsIn = (base: string): string => join(base, 'settings.json')
const modelsIn = (home: string): string => join(home, 'models')

/** Makes a link to the folder under its name, unless another folder has that name. An existing link is left as it is. */
async function linkInto(models: string, folder: string): Promise<void> {
  const name = nameOf(folder).replace(/^\.+/, '')
  const mark = createHash('sha256').update(folder).digest('hex').slice(0, 8)
  for (const link of [name, `${name}-${mark}`].map((one) => join(models, one))) {
    try {
      await symlink(folder, link)
      return
    } catch (error) {
      if (!hasCode(error, 'EEXIST')) throw error
      if ((await identityOf(link)) === (await identityOf(folder))) return
    }
  }
}

/**
 * Makes the folder of an oMLX that is started here: a key of its own, which no command line has, no models of the Hub's cache, and no links to models from before, which are made again for those that services need.
 */
export async function prepareOmlx(home: string): Promise<void> {
  const file = settingsIn(home)
  if (apiKeyIn(file) === undefined) {
    const settings = {
      version: '1.0',
      auth: { api_key: randomBytes(24).toString('hex') },
      huggingface: { hf_cache_enabled: false },
    }
    await writeFileAtomic(file, `${JSON.stringify(settings)}\n`, { mode: 0o600 })
  }
  await rm(modelsIn(home), { recursive: true, force: true })
  await mkdir(modelsIn(home), { mode: 0o700 })
}

/** Starts it with a folder of its own for settings, which a person may change on its page. */
export const omlxArguments = ({ host, port, home }: DaemonAddress & { readonly home: string }): string[] => [
  ...['serve', '--base-path', home, '--model-dir', modelsIn(home)],
  ...['--host', host, '--port', String(port)],
]

const isSticky = /previous load failure|failed to load/i

const pathOf = (name: string, verb: 'load' | 'unload'): string => `/v1/models/${encodeURIComponent(name)}/${verb}`

/** What oMLX calls a model, unless it is one of the Hub's cache. */
export const nameOf = (folder: string): string => resolve(folder).split('/').at(-1) ?? ''

/** The same for each path that leads to the folder; undefined where there is none. */
async function identityOf(folder: string): Promise<string | undefined> {
  if (!isAbsolute(folder)) return undefined
  try {
    const { dev, ino } = await stat(folder, { bigint: true })
    return [dev, ino].join(' ')
  } catch (error) {
    // It is gone, or nothing that this user may look at.
    if (errorCode(error) !== undefined) return undefined
    throw error
  }
}

/** The folder of an oMLX of this person, as oMLX itself finds it. */
export function omlxBasePath(env: NodeJS.ProcessEnv = process.env, home = homedir()): string {
  const moved = join(home, 'Library', 'Application Support', 'oMLX', 'base-path')
  const said = [env['OMLX_BASE_PATH'], textNow(moved)?.trim()].find((one) => one)
  return said === undefined ? join(home, '.omlx') : resolve(expandHome(said, home))
}

/** As any header may have it. */
const settingsText = z.object({
  auth: z.object({
    api_key: z
      .string()
      .min(1)
      .max(4_096)
      .regex(/^[\x21-\x7e]+$/),
  }),
})

function apiKeyIn(settingsFile: string): string | undefined {
  return settingsText.safeParse(jsonNow(settingsFile)).data?.auth.api_key
}

const jsonNow = (file: string): unknown => parseJson(textNow(file) ?? '')

/** In this turn, since the gateway is told at once. Undefined where there is no such file. */
function textNow(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (errorCode(error) !== undefined) return undefined
    throw error
  }
}
