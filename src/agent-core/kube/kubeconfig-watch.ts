import { type Stats, unwatchFile, watchFile } from 'node:fs'

/** How late a change may be noticed. To look costs next to nothing, and a watch of the system would end with a file that is replaced. */
const lookEveryMs = 1_000

/** Tells when a kubeconfig was written in place or replaced by a rename, also behind a link, when it is gone and when it is back. */
export class KubeconfigWatch implements Disposable {
  readonly #files: () => readonly string[]
  readonly #onLook: (now: Stats, before: Stats) => void
  #watched: readonly string[] = []

  /** `files`: as chosen now. */
  constructor(files: () => readonly string[], onChange: () => void) {
    this.#files = files
    // A file that is not there at first is told once.
    this.#onLook = (now, before) => {
      if (now.ino !== 0 || before.ino !== 0) onChange()
    }
    this.lookAgain()
  }

  /** Other files may be chosen by now. */
  lookAgain(): void {
    this.#watch(this.#files())
  }

  [Symbol.dispose](): void {
    this.#watch([])
  }

  #watch(wanted: readonly string[]): void {
    for (const file of this.#watched) if (!wanted.includes(file)) unwatchFile(file, this.#onLook)
    const options = { interval: lookEveryMs, persistent: false }
    for (const file of wanted) if (!this.#watched.includes(file)) watchFile(file, options, this.#onLook)
    this.#watched = wanted
  }
}
