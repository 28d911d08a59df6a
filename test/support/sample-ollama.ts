import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { z } from 'zod'
import { canonicalName } from '../../src/agent-core/servers/ollama.ts'
import { parseJson } from '../../src/agent-core/util/files.ts'

export interface SampleModel {
  readonly name: string
  readonly digest: string
  /** Of its weights, as `sha256:` and hex. */
  readonly weights: string
  readonly contextTokens: number | undefined
}

type Said = [status: number, answer: unknown]
/** False: the sample answers itself. */
type Answer = (request: IncomingMessage, response: ServerResponse) => boolean

interface SampleOptions {
  /** Of each model that is loaded. */
  readonly bytes?: number
}

const created = z.object({
  model: z.string(),
  files: z.record(z.string(), z.string()),
  parameters: z.looseObject({ num_ctx: z.number().optional() }).optional(),
})
const run = z.object({ model: z.string(), keep_alive: z.number().optional() })
const named = z.object({ model: z.string() })

/** Speaks as much of Ollama's protocol as an agent asks for, in this process, and does what no real one does on demand. It answers no prompt. */
export class SampleOllama implements AsyncDisposable {
  /** By name, as it is told. */
  readonly models = new Map<string, SampleModel>()
  version = '0.17.4'
  /** What tests put before its own answers; true where that has answered. */
  before: Answer = () => false
  /** Method, path and model of everything that was to change something. */
  readonly changes: string[] = []
  /** By its weights, which are in memory once: another model of them takes the place of the one before. */
  readonly #loaded = new Map<string, { readonly model: SampleModel; usedAt: number }>()
  readonly #blobs = new Set<string>()
  readonly #bytes: number
  /** Answers that wait for the end of a hang. */
  #held: (() => void)[] | undefined
  #server: Server | undefined
  #port = 0

  private constructor({ bytes = 1_000_000 }: SampleOptions) {
    this.#bytes = bytes
  }

  static async start(options: SampleOptions = {}): Promise<SampleOllama> {
    const sample = new SampleOllama(options)
    await sample.comeBack()
    return sample
  }

  get port(): number {
    return this.#port
  }

  /** A model of a person's own. */
  have(name: string, { isLoaded = false } = {}): void {
    const model = {
      name: `${name}:latest`,
      digest: digestOf(name),
      weights: digestOf(`weights of ${name}`),
      contextTokens: 4_096,
    }
    this.models.set(canonicalName(name), model)
    if (isLoaded) this.#load(model)
  }

  /** In the order in which they were loaded. */
  get loaded(): SampleModel[] {
    return [...this.#loaded.values()].map(({ model }) => model)
  }

  /** As under memory pressure of its own. */
  drop(isMeant: (model: SampleModel) => boolean = () => true): void {
    for (const { model } of this.#loaded.values()) if (isMeant(model)) this.#loaded.delete(model.weights)
  }

  /** It has its models afterwards, and none of them in memory. */
  async kill(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    this.#loaded.clear()
    if (!server) return
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }

  /** At the port that it had. */
  async comeBack(): Promise<void> {
    if (this.#server) return
    const server = createServer((request, response) => void this.#answer(request, response))
    this.#server = server
    await once(server.listen(this.#port, '127.0.0.1'), 'listening')
    this.#port = (server.address() as AddressInfo).port
  }

  /** As one that is suspended: it answers nothing, and afterwards everything that it was asked. */
  hang(): void {
    this.#held ??= []
  }

  goOn(): void {
    const held = this.#held ?? []
    this.#held = undefined
    for (const answer of held) answer()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.goOn()
    await this.kill()
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // An agent that ends leaves without its answer.
    const body = await text(request).catch(() => undefined)
    if (body === undefined || response.destroyed) return
    if (this.#held) this.#held.push(() => this.#say(request, response, parseJson(body)))
    else this.#say(request, response, parseJson(body))
  }

  #say(request: IncomingMessage, response: ServerResponse, body: unknown): void {
    if (response.destroyed || this.before(request, response)) return
    const { method = '', url = '' } = request
    const { model = '' } = named.safeParse(body).data ?? {}
    if (method !== 'GET' && method !== 'HEAD') this.changes.push(`${method} ${url} ${model}`.trimEnd())
    const [status, said] = url.startsWith('/api/blobs/')
      ? this.#blob(method, url.slice('/api/blobs/'.length))
      : this.#answerTo(`${method} ${url}`, body)
    response.writeHead(status).end(JSON.stringify(said))
  }

  #blob(method: string, digest: string): Said {
    if (method === 'HEAD') return [this.#blobs.has(digest) ? 200 : 404, {}]
    this.#blobs.add(digest)
    return [201, {}]
  }

  #answerTo(question: string, body: unknown): Said {
    switch (question) {
      case 'GET /api/version':
        return [200, { version: this.version }]
      case 'GET /api/tags':
        return [200, { models: [...this.models.values()].map(({ name, digest }) => ({ name, digest })) }]
      case 'GET /api/ps':
        return [200, { models: [...this.#loaded.values()].map((one) => this.#inMemory(one)) }]
      case 'POST /api/show': {
        const { weights } = this.models.get(canonicalName(named.parse(body).model)) ?? {}
        return weights === undefined ? [404, {}] : [200, { modelfile: `FROM /blobs/${weights.replace(':', '-')}` }]
      }
      case 'POST /api/create':
        this.#create(created.parse(body))
        return [200, { status: 'success' }]
      case 'POST /api/generate':
        return this.#run(run.parse(body))
      case 'DELETE /api/delete':
        return [this.models.delete(canonicalName(named.parse(body).model)) ? 200 : 404, {}]
      default:
        return [404, {}]
    }
  }

  #inMemory({ model: { name, digest }, usedAt }: { readonly model: SampleModel; readonly usedAt: number }) {
    return { name, digest, size: this.#bytes, expires_at: new Date(usedAt + foreverMs).toISOString() }
  }

  #create({ model, files, parameters }: z.infer<typeof created>): void {
    const [weights = ''] = Object.values(files)
    const contextTokens = parameters?.num_ctx
    const digest = digestOf(JSON.stringify([weights, contextTokens]))
    const name = model.includes(':') ? model : `${model}:latest`
    this.models.set(canonicalName(model), { name, digest, weights, contextTokens })
  }

  #run({ model: name, keep_alive: keep }: z.infer<typeof run>): Said {
    const model = this.models.get(canonicalName(name))
    if (keep === 0) {
      this.drop((one) => canonicalName(one.name) === canonicalName(name))
      return [200, { done: true, done_reason: 'unload' }]
    }
    if (!model) return [404, { error: `model '${name}' not found` }]
    this.#load(model)
    return [200, { done: true, done_reason: 'load' }]
  }

  #load(model: SampleModel): void {
    this.#loaded.set(model.weights, { model, usedAt: Date.now() })
  }
}

/** As Ollama says it of a model that it keeps for ever. */
const foreverMs = 292 * 365 * 86_400_000

const digestOf = (content: string): string => createHash('sha256').update(content).digest('hex')
