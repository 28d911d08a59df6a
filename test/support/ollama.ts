import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { signalGroup } from '../../src/agent-core/util/signal-group.ts'
import { DaemonOfPerson } from './daemon-of-person.ts'
import { freePort } from './free-port.ts'
import { temporaryFolder } from './temporary-folder.ts'

type Home = Awaited<ReturnType<typeof temporaryFolder>>

const named = z.object({ models: z.array(z.object({ name: z.string() })).nullable() })

/** A real Ollama of a person, with a home of its own. It has its models again after a start. */
export class OllamaOfPerson extends DaemonOfPerson implements AsyncDisposable {
  protected readonly command
  readonly #home: Home

  private constructor(executable: string, port: number, home: Home) {
    super(port)
    this.#home = home
    this.command = {
      argv: [executable, 'serve'] as const,
      env: { HOME: home.dir, OLLAMA_HOST: `127.0.0.1:${port}`, OLLAMA_NOHISTORY: '1' },
      ...{ readyAt: '/api/version', leadsGroup: true },
    }
  }

  static async start(executable: string): Promise<OllamaOfPerson> {
    const ollama = new OllamaOfPerson(executable, await freePort(), await temporaryFolder())
    await ollama.start()
    return ollama
  }

  /** Gives it a model of the person's own. */
  async have(name: string, file: string): Promise<void> {
    const bytes = await readFile(file)
    const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`
    await this.ask('POST', `/api/blobs/${digest}`, bytes)
    await this.ask('POST', '/api/create', { model: name, files: { 'model.gguf': digest }, stream: false })
  }

  /** Names of the models that it has, in the order of the alphabet. */
  models = (): Promise<string[]> => this.#names('/api/tags')
  loaded = (): Promise<string[]> => this.#names('/api/ps')

  async #names(path: string): Promise<string[]> {
    const { models } = named.parse(JSON.parse((await this.ask('GET', path)).text))
    return (models ?? []).map(({ name }) => name).toSorted()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { pid } = this
    await this.stop()
    if (pid !== undefined) signalGroup(pid, 'SIGKILL')
    await this.#home[Symbol.asyncDispose]()
  }
}
