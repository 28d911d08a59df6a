import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { DaemonOfPerson } from './daemon-of-person.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { writeMlxModel } from './mlx-writer.ts'
import { temporaryFolder } from './temporary-folder.ts'

const sample = fileURLToPath(new URL('sample-servers/sample-omlx.cjs', import.meta.url))
/** The same as a program that takes the arguments of `omlx`. */
export const sampleOmlxPath = fileURLToPath(new URL('sample-servers/sample-omlx', import.meta.url))

/** How the sample shall behave. */
export interface OmlxScript {
  readonly loadMs?: number
  /** From its start, pinned models are loaded for so long. */
  readonly preloadMs?: number
  readonly tokenMs?: number
  /** It listens only then. */
  readonly startMs?: number
}

interface OmlxOptions {
  readonly script?: OmlxScript
  readonly key?: string
  /** Folders of models beside its own one. */
  readonly folders?: readonly string[]
}

const listed = z.object({
  models: z.array(z.object({ id: z.string(), loaded: z.boolean(), source_model_id: z.string().optional() })),
})

/** A sample of an oMLX that a person runs, with settings and models of its own. */
export class OmlxOfPerson extends DaemonOfPerson implements AsyncDisposable {
  protected readonly command
  readonly basePath: string
  readonly #home: Awaited<ReturnType<typeof temporaryFolder>>
  readonly #folders: readonly string[]
  #key: string | undefined

  private constructor(port: number, home: Awaited<ReturnType<typeof temporaryFolder>>, options: OmlxOptions) {
    super(port)
    this.basePath = path.join(home.dir, '.omlx')
    this.#home = home
    this.#folders = options.folders ?? []
    this.#key = options.key
    this.command = {
      argv: [process.execPath, sample] as const,
      env: { OMLX_BASE_PATH: this.basePath, SAMPLE_SCRIPT: JSON.stringify(options.script ?? {}) },
      readyAt: '/health',
    }
  }

  static async start(options: OmlxOptions = {}): Promise<OmlxOfPerson> {
    const omlx = new OmlxOfPerson(await freePort(), await temporaryFolder(), options)
    await mkdir(omlx.models, { recursive: true })
    await omlx.#save()
    await omlx.start()
    return omlx
  }

  /** Its own folder of models. */
  get models(): string {
    return path.join(this.basePath, 'models')
  }

  protected override get headers(): Record<string, string> {
    return this.#key === undefined ? {} : { authorization: `Bearer ${this.#key}` }
  }

  /** As its person does it on its page. */
  async setKey(key: string | undefined): Promise<void> {
    this.#key = key
    await this.#save()
  }

  /** Gives it a model, and has it read its folders. */
  async have(name: string): Promise<string> {
    const folder = path.join(this.models, name)
    await writeMlxModel(folder)
    await this.reload(name)
    return folder
  }

  /** Reads its folders, until it lists the model. */
  async reload(name: string): Promise<void> {
    this.hangUp()
    await eventually(async () => (await this.#listed()).some(({ id }) => id === name), { what: `oMLX listing ${name}` })
  }

  /** Names of the models in memory, in the order of the alphabet. */
  async loaded(): Promise<string[]> {
    return (await this.#listed()).flatMap(({ id, loaded }) => (loaded ? [id] : [])).toSorted()
  }

  async #listed() {
    const { models } = listed.parse(JSON.parse((await this.ask('GET', '/v1/models/status')).text))
    return models.filter(({ id, source_model_id: source }) => source === undefined && id !== 'markitdown')
  }

  async #save(): Promise<void> {
    const settings = {
      ...{ version: '1.0', server: { host: '127.0.0.1', port: this.port } },
      ...{ model: { model_dirs: [this.models, ...this.#folders] }, auth: { api_key: this.#key ?? null, sub_keys: [] } },
    }
    await writeFile(path.join(this.basePath, 'settings.json'), JSON.stringify(settings), { mode: 0o600 })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.kill()
    await this.stop()
    await this.#home[Symbol.asyncDispose]()
  }
}
