import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { signalGroup } from '../../src/agent-core/util/signal-group.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { temporaryFolder } from './temporary-folder.ts'

type Home = Awaited<ReturnType<typeof temporaryFolder>>

const named = z.object({ models: z.array(z.object({ name: z.string() })).nullable() })

/** A real Ollama of a person, with a home of its own. */
export class OllamaOfPerson implements AsyncDisposable {
  readonly port: number
  readonly #executable: string
  readonly #home: Home
  #process: ReturnType<typeof spawn> | undefined

  private constructor(executable: string, port: number, home: Home) {
    this.#executable = executable
    this.port = port
    this.#home = home
  }

  static async start(executable: string): Promise<OllamaOfPerson> {
    const ollama = new OllamaOfPerson(executable, await freePort(), await temporaryFolder())
    await ollama.start()
    return ollama
  }

  /** Again at the same port, with the models that it had. */
  async start(): Promise<void> {
    const { PATH } = process.env
    this.#process = spawn(this.#executable, ['serve'], {
      stdio: 'ignore',
      // Its runners are of its group, and outlive one that is killed.
      detached: true,
      env: { PATH, HOME: this.#home.dir, OLLAMA_HOST: `127.0.0.1:${this.port}`, OLLAMA_NOHISTORY: '1' },
    })
    await eventually(() => this.ask('GET', '/api/version').then(({ status }) => status === 200), { what: 'Ollama' })
  }

  async stop(): Promise<void> {
    const running = this.#process
    if (!running || running.exitCode !== null || running.signalCode !== null) return
    running.kill('SIGCONT')
    running.kill('SIGTERM')
    await once(running, 'exit')
  }

  /** It neither answers nor ends. */
  suspend(): void {
    this.#process?.kill('SIGSTOP')
  }

  async ask(method: string, path: string, body?: unknown): Promise<{ status: number; text: string }> {
    const answer = await fetch(`http://127.0.0.1:${this.port}${path}`, {
      ...{ method, headers: { connection: 'close' } },
      ...(body !== undefined && { body: body instanceof Buffer ? new Uint8Array(body) : JSON.stringify(body) }),
    })
    return { status: answer.status, text: await answer.text() }
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
    const pid = this.#process?.pid
    await this.stop()
    if (pid !== undefined) signalGroup(pid, 'SIGKILL')
    await this.#home[Symbol.asyncDispose]()
  }
}
