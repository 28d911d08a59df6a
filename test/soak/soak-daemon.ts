import { createHash } from 'node:crypto'
import { SampleOllama, type SampleModel } from '../support/sample-ollama.ts'

/** Some of its person's. */
const foreign = 'mine'
const ownPrefix = 'metalbar-'

/** The Ollama beside an agent, as each Mac has its own, with a model of its person in it. */
export class SoakDaemon implements AsyncDisposable {
  /** Nobody can find out what it has in memory. */
  isHanging = false
  readonly #sample: SampleOllama

  private constructor(sample: SampleOllama) {
    this.#sample = sample
  }

  static async start(): Promise<SoakDaemon> {
    const sample = await SampleOllama.start()
    sample.have(foreign, { isLoaded: true })
    return new SoakDaemon(sample)
  }

  get port(): number {
    return this.#sample.port
  }

  /** By the agent. */
  get loaded(): readonly SampleModel[] {
    return this.#sample.loaded.filter(({ name }) => name.startsWith(ownPrefix))
  }

  /** Since it was asked last. */
  foreignChanges(): string[] {
    return this.#sample.changes.splice(0).filter((change) => change.split(' ').some((word) => word.startsWith(foreign)))
  }

  dropModels(): void {
    this.#sample.drop(({ name }) => name.startsWith(ownPrefix))
  }

  /** While `during` lasts it is not there. */
  async away(during: () => Promise<unknown>): Promise<void> {
    await this.#sample.kill()
    await during()
    await this.#sample.comeBack()
  }

  /** While `during` lasts it answers nothing. */
  async hang(during: () => Promise<unknown>): Promise<void> {
    this.isHanging = true
    this.#sample.hang()
    await during()
    this.#sample.goOn()
    this.isHanging = false
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sample[Symbol.asyncDispose]()
  }
}

/** As Ollama knows a file. */
export const weightsOf = (text: string): string => `sha256:${createHash('sha256').update(text).digest('hex')}`
