import type { Progress } from '../../contract/service.ts'
import type { RemoteFile } from './resolve.ts'

/** The progress of several files as one. */
export class TotalProgress {
  readonly #done = new Map<RemoteFile, number>()
  readonly #totalBytes: number | undefined
  readonly #isSingle: boolean
  readonly #onProgress: (progress: Progress) => void

  constructor(files: readonly RemoteFile[], onProgress: (progress: Progress) => void) {
    const sizes = files.map(({ sizeBytes }) => sizeBytes)
    this.#isSingle = files.length === 1
    this.#totalBytes = sizes.reduce<number | undefined>(
      (sum, size) => (sum === undefined || size === undefined ? undefined : sum + size),
      0,
    )
    this.#onProgress = onProgress
  }

  report(file: RemoteFile, progress: Progress): void {
    if (this.#isSingle) {
      this.#onProgress(progress)
      return
    }
    this.#done.set(file, progress.doneBytes)
    const { totalBytes: _, ...rest } = progress
    const doneBytes = [...this.#done.values()].reduce((sum, bytes) => sum + bytes, 0)
    const totalBytes = this.#totalBytes
    this.#onProgress({ ...rest, doneBytes, ...(totalBytes !== undefined && { totalBytes }) })
  }

  end(file: RemoteFile, sizeBytes: number): void {
    this.#done.set(file, sizeBytes)
  }
}
