/** Asks a server one thing after the other, as fast as it answers, until it is stopped. */
export class Requests implements AsyncDisposable {
  readonly #asking: Promise<void>
  #asked = 0
  #failed = 0
  #stopped = false

  constructor(port: number) {
    this.#asking = this.#ask(`http://127.0.0.1:${port}/v1/models`)
  }

  async stop(): Promise<{ readonly asked: number; readonly failed: number }> {
    this.#stopped = true
    await this.#asking
    return { asked: this.#asked, failed: this.#failed }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  async #ask(url: string): Promise<void> {
    while (!this.#stopped) {
      const isAnswered = await fetch(url).then(
        async (response) => {
          await response.arrayBuffer()
          return response.ok
        },
        () => false,
      )
      this.#asked += 1
      if (!isAnswered) this.#failed += 1
    }
  }
}
