import { existsSync } from 'node:fs'

export class NativeImage {
  readonly #file: string | undefined
  #isTemplate = false

  constructor(file: string | undefined) {
    this.#file = file
  }

  /** Undefined = it is empty, and shows nothing. */
  get file(): string | undefined {
    return this.#file
  }

  isEmpty(): boolean {
    return this.#file === undefined
  }

  setTemplateImage(isTemplate: boolean): void {
    this.#isTemplate = isTemplate
  }

  isTemplateImage(): boolean {
    return this.#isTemplate
  }
}

export const nativeImage = {
  /** A missing file is no error: the image is empty. */
  createFromPath: (file: string): NativeImage => new NativeImage(existsSync(file) ? file : undefined),
}
