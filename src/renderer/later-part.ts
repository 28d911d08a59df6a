import type { ComponentType } from 'react'

/** A part of the window whose code comes after what is seen first. */
export class LaterPart {
  readonly #fetch: () => Promise<ComponentType>
  #component: ComponentType | undefined
  #loading: Promise<ComponentType> | undefined

  constructor(fetch: () => Promise<ComponentType>) {
    this.#fetch = fetch
  }

  /** Undefined until it is here. */
  get component(): ComponentType | undefined {
    return this.#component
  }

  /** Tries again where it failed before. */
  load(): Promise<ComponentType> {
    this.#loading ??= this.#fetch().then(
      (component) => (this.#component = component),
      (error: unknown) => {
        this.#loading = undefined
        throw error
      },
    )
    return this.#loading
  }
}
