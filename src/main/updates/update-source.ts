import { app, autoUpdater } from 'electron'
import type { MacUpdater } from 'electron-updater'
import { z } from 'zod'
import type { Logger } from '../../agent-core/observability/logger.ts'
import { sharedWords } from '../../contract/words.ts'
import { UpdateError } from './update-problem.ts'
import { updateWords } from '../words.ts'

export interface Found {
  readonly version: string
  readonly isNewer: boolean
  readonly bytes: number | undefined
}

export interface Progress {
  readonly doneBytes: number
  readonly totalBytes: number
  readonly bytesPerSecond: number
}

/** A server that works answers within a few seconds. */
const lookLimitMs = 30_000
/** A download without a byte for this long has stalled. */
const stallLimitMs = 60_000
/** macOS unpacks it and looks at every file. */
const stageLimitMs = 300_000

/** What the server says is somebody else's. */
const published = z.object({
  version: z.string().max(100),
  files: z.array(z.object({ url: z.string(), size: z.number().int().nonnegative().optional() })).default([]),
})

const progress = z.object({ transferred: z.number(), total: z.number(), bytesPerSecond: z.number() })

/** Where newer apps come from: electron-updater, which brings and checks them, and macOS, which checks who signed them and puts them in place. */
export class UpdateSource {
  readonly #log: Logger
  #opened: Promise<Opened> | undefined

  constructor(log: Logger) {
    this.#log = log
  }

  /** Throws what problemOf understands. */
  async look(): Promise<Found> {
    const { updater } = await this.#open()
    const result = await this.#within(lookLimitMs, updateWords.problems.noAnswer, () => updater.checkForUpdates())
    if (!result) throw new UpdateError(sharedWords.noUpdates.source)
    const { version, files } = published.parse(result.updateInfo)
    const isArm64Mac = process.arch === 'arm64' || app.runningUnderARM64Translation
    const archive = files.find(({ url }) => url.endsWith('.zip') && url.includes('arm64') === isArm64Mac)
    return { version, isNewer: result.isUpdateAvailable, bytes: archive?.size }
  }

  /** Downloads the update that was found last. Throws what problemOf understands, and the reason of the signal. */
  async download(onProgress: (now: Progress) => void, signal: AbortSignal): Promise<void> {
    const { updater, CancellationToken } = await this.#open()
    const token = new CancellationToken()
    const stalled = new AbortController()
    const end = () => {
      token.cancel()
      // Else the connection stays open, with nobody who reads from it.
      void updater.netSession.closeAllConnections()
    }
    const stop = () => {
      stalled.abort()
      end()
    }
    let stall = setTimeout(stop, stallLimitMs)
    const moved = (given: unknown) => {
      clearTimeout(stall)
      stall = setTimeout(stop, stallLimitMs)
      const { transferred, total, bytesPerSecond } = progress.parse(given)
      onProgress({ doneBytes: transferred, totalBytes: total, bytesPerSecond })
    }
    const native = nativeError()
    updater.on('download-progress', moved)
    signal.addEventListener('abort', end, { once: true })
    try {
      signal.throwIfAborted()
      await updater.downloadUpdate(token)
      native.throwIfAny()
    } catch (error) {
      signal.throwIfAborted()
      if (stalled.signal.aborted) throw new UpdateError(updateWords.problems.stalled)
      throw error
    } finally {
      clearTimeout(stall)
      native.forget()
      signal.removeEventListener('abort', end)
      updater.off('download-progress', moved)
    }
  }

  /** Has macOS check and unpack what was downloaded; from then on it takes the place of this app as soon as that ends. */
  async stage(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<undefined>()
    const done = () => resolve(undefined)
    const missing = () => reject(new UpdateError(updateWords.problems.gone))
    autoUpdater.once('update-downloaded', done)
    autoUpdater.once('update-not-available', missing)
    autoUpdater.once('error', reject)
    const limit = setTimeout(() => reject(new UpdateError(updateWords.problems.notStaged)), stageLimitMs)
    try {
      autoUpdater.checkForUpdates()
      await promise
    } finally {
      clearTimeout(limit)
      autoUpdater.off('update-downloaded', done)
      autoUpdater.off('update-not-available', missing)
      autoUpdater.off('error', reject)
    }
  }

  /** Ends the app, and opens the one that was staged. `onFailed`: it does neither. */
  async install(onFailed: (error: Error) => void): Promise<void> {
    const { updater } = await this.#open()
    autoUpdater.once('error', onFailed)
    updater.quitAndInstall()
  }

  #open(): Promise<Opened> {
    this.#opened ??= import('electron-updater').then(({ MacUpdater, CancellationToken }) => {
      const updater = new MacUpdater()
      const write = (level: 'debug' | 'warn') => (text: unknown) => this.#log[level]('updater', { text: String(text) })
      updater.logger = { debug: write('debug'), info: write('debug'), warn: write('warn'), error: write('warn') }
      // A person presses for each of them.
      updater.autoDownload = false
      updater.autoInstallOnAppQuit = false
      // Else an id of this Mac, which is kept for good, goes with each request.
      updater.requestHeaders = { 'x-user-staging-id': '' }
      // One whole file with one checksum; the copy that differences are made from would take as much disk again.
      updater.disableDifferentialDownload = true
      return { updater, CancellationToken }
    })
    return this.#opened
  }

  /** Electron's requests have no limit of their own. */
  async #within<T>(limitMs: number, sentence: string, work: () => Promise<T>): Promise<T> {
    const { updater } = await this.#open()
    const late = new AbortController()
    const limit = setTimeout(() => {
      late.abort()
      void updater.netSession.closeAllConnections()
    }, limitMs)
    try {
      return await work()
    } catch (error) {
      throw late.signal.aborted ? new UpdateError(sentence, { cause: error }) : error
    } finally {
      clearTimeout(limit)
    }
  }
}

interface Opened {
  readonly updater: MacUpdater
  readonly CancellationToken: (typeof import('electron-updater'))['CancellationToken']
}

/** Catches the error of macOS's own updater, which reports it as an event rather than in its answer. */
function nativeError() {
  let reported: Error | undefined
  const onError = (error: Error) => void (reported ??= error)
  autoUpdater.on('error', onError)
  return {
    throwIfAny: () => {
      if (reported) throw reported
    },
    forget: () => void autoUpdater.off('error', onError),
  }
}
