/** A click on the icon takes the keys from the window. Both are told in either order, no further apart than this. */
const sameClickMs = 250

/** What a click on the icon means: one that has closed the window, since it took the keys from it, must not open it again. */
export class IconClicks {
  #hiddenAt = -Infinity
  /** Whether the window was open when the button went down; undefined = none did. It may stay down for long. */
  #wasOpen: boolean | undefined

  /** The window was hidden since it lost the keys. */
  hidden(): void {
    this.#hiddenAt = performance.now()
  }

  pressed(isOpen: boolean): void {
    this.#wasOpen = this.#isSame(isOpen)
  }

  /** Whether the click opens the window; else it closes it. */
  opens(isOpen: boolean): boolean {
    const wasOpen = this.#wasOpen ?? this.#isSame(isOpen)
    this.#wasOpen = undefined
    return !wasOpen
  }

  #isSame(isOpen: boolean): boolean {
    return isOpen || performance.now() - this.#hiddenAt < sameClickMs
  }
}
