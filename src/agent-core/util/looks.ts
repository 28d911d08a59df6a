/** Waits for what is told by no promise, but by somebody who says that something has changed. */
export class Looks {
  readonly #looks = new Set<() => void>()

  /** Resolves when it is so at a look; the first is taken at once. */
  async until(isSo: () => boolean): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<undefined>()
    const look = (): void => {
      if (isSo()) resolve(undefined)
    }
    this.#looks.add(look)
    look()
    await promise
    this.#looks.delete(look)
  }

  /** Something has changed. */
  again(): void {
    for (const look of this.#looks) look()
  }
}
