import { createHash } from 'node:crypto'
import { existsSync, watch, type FSWatcher } from 'node:fs'
import { realpath } from 'node:fs/promises'
import { dirname, relative, sep } from 'node:path'
import type { Logger } from '../observability/logger.ts'
import { ownFailure } from '../util/error-code.ts'
import { hasCode } from '../util/files.ts'
import { kubeconfigText } from './kubeconfig-files.ts'

/** A file that is replaced makes several events, and one that is written in pieces many. */
const settleMs = 150

export interface KubeconfigWatchOptions {
  /** As chosen now; none where there is no file to watch. */
  readonly files: () => readonly string[]
  /** They say something else than before, or one came or went. */
  readonly onChange: () => void
  readonly log: Logger
}

/**
 * Tells when a kubeconfig is not what it was: written in place or replaced by a rename, behind a link, gone and back. Folders are watched,
 * since a watch on a file ends with the file.
 */
export class KubeconfigWatch {
  readonly #options: KubeconfigWatchOptions
  readonly #watchers = new Map<string, FSWatcher>()
  /** What matters in each folder that is watched. */
  #names: ReadonlyMap<string, ReadonlySet<string>> = new Map()
  #digest: string | undefined
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<void>
  #isClosed = false

  constructor(options: KubeconfigWatchOptions) {
    this.#options = options
    this.#looking = this.#look()
  }

  /** Other files may be chosen by now. */
  lookAgain(): void {
    this.#due()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    for (const watcher of this.#watchers.values()) watcher.close()
    await this.#looking
  }

  #due(): void {
    // Never put off: in a busy folder there would be no end of it.
    if (this.#isClosed || this.#timer) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#looking = this.#looking.then(() => this.#look())
    }, settleMs)
    this.#timer.unref()
  }

  async #look(): Promise<void> {
    const files = this.#options.files()
    // Watched before it is read: what is written in between is seen.
    await this.#watchFolders(files)
    const digest = await digestOf(files).catch((error: unknown) => {
      this.#options.log.warn('kubeconfig not looked at', { error })
      return this.#digest
    })
    const before = this.#digest
    this.#digest = digest
    if (before !== undefined && before !== digest && !this.#isClosed) this.#options.onChange()
  }

  async #watchFolders(files: readonly string[]): Promise<void> {
    const real = await Promise.all(files.map((file) => realpath(file).catch(() => file)))
    if (this.#isClosed) return
    const wanted = new Map<string, Set<string>>()
    for (const file of [...files, ...real]) {
      const folder = nearestFolder(file)
      const [name = ''] = relative(folder, file).split(sep)
      wanted.set(folder, (wanted.get(folder) ?? new Set()).add(name))
    }
    this.#names = wanted
    for (const [folder, watcher] of this.#watchers) {
      if (wanted.has(folder)) continue
      watcher.close()
      this.#watchers.delete(folder)
    }
    for (const folder of wanted.keys()) if (!this.#watchers.has(folder)) this.#watchFolder(folder)
  }

  /** Kubernetes changes what it mounts into a Pod by way of names that begin with two dots. */
  #concerns(folder: string, name: string): boolean {
    return name.startsWith('..') || this.#names.get(folder)?.has(name) === true
  }

  #watchFolder(folder: string): void {
    try {
      const watcher = watch(folder, { persistent: false }, (_, name) => {
        if (name === null || this.#concerns(folder, name)) this.#due()
      })
      this.#watchers.set(folder, watcher)
      watcher.on('error', (error) => {
        this.#options.log.debug('kubeconfig not watched', { folder, error })
        watcher.close()
        this.#watchers.delete(folder)
        this.#due()
      })
    } catch (error) {
      // Where a system has no more watches to give, `reloadKubeconfig` does the same.
      this.#options.log.warn('kubeconfig not watched', { folder, error })
    }
  }
}

/** The folder that a file is in, or would be in once that is made. */
function nearestFolder(file: string): string {
  let folder = dirname(file)
  while (!existsSync(folder) && folder !== dirname(folder)) folder = dirname(folder)
  return folder
}

/** A file that is not there or not ours to read counts as empty. Throws where this process cannot look, such as for want of a file descriptor. */
async function digestOf(files: readonly string[]): Promise<string> {
  const hash = createHash('sha256')
  for (const file of files) hash.update(`${file}\0${await textIfReadable(file)}\0`)
  return hash.digest('hex')
}

const textIfReadable = (file: string): Promise<string> =>
  kubeconfigText(file).catch((error: unknown) => {
    if (ownFailure(error) === undefined || hasCode(error, 'EACCES') || hasCode(error, 'EPERM')) return ''
    throw error
  })
