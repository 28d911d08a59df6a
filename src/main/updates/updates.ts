import { rm } from 'node:fs/promises'
import path from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { z } from 'zod'
import type { Logger } from '../../agent-core/observability/logger.ts'
import { parseJson, readIfThere } from '../../agent-core/util/files.ts'
import type { UpdateAction } from '../../contract/app-bridge.ts'
import type { LastUpdate, NoUpdates, UpdateState } from '../../contract/app-state.ts'
import { LinkError } from '../../contract/client.ts'
import { sharedWords } from '../../contract/words.ts'
import { problemOf, UpdateError } from './update-problem.ts'
import type { UpdateSource } from './update-source.ts'
import { updateWords } from '../words.ts'

export interface UpdatesOptions {
  readonly log: Logger
  readonly stateDir: string
  readonly version: string
  readonly source: Pick<UpdateSource, 'look' | 'download' | 'stage' | 'install'>
  /** Why there are none, if so. */
  readonly refusal: () => NoUpdates | undefined
  /** On the disk that updates come to; undefined where that is not known. */
  readonly freeBytes: () => Promise<number | undefined>
  readonly onState: (state: UpdateState) => void
  /** Ends the agent, whose servers keep running, and calls `finish` when nothing but the app itself is left. */
  readonly endBy: (finish: () => void) => Promise<void>
  /** Opens the app again, since it ended for an update that macOS then did not take. */
  readonly relaunch: () => void
}

/** The archive, what is unpacked of it, and the app in its place, until the old one is deleted. */
const spaceFactor = 4
/** macOS ends the app within moments of being asked. */
const endLimitMs = 30_000

/** One update at a time, each step of it begun by a person: looked for, downloaded, installed. */
export class Updates {
  readonly #options: UpdatesOptions
  #state: UpdateState = { step: 'unknown' }
  #download: AbortController | undefined

  constructor(options: UpdatesOptions) {
    this.#options = options
    this.judge()
  }

  /** Whether there are updates at all may be known better now. */
  judge(): void {
    const why = this.#options.refusal()
    if (why !== undefined) this.#become({ step: 'unavailable', why })
    else if (this.#state.step === 'unavailable' || this.#state.step === 'unknown') this.#become({ step: 'unknown' })
  }

  /** Begins it. Throws LinkError where it cannot be begun now. */
  act(action: UpdateAction): void {
    const { log } = this.#options
    this.#work(action).catch((error: unknown) => {
      log.warn('an update failed', { action, error })
      this.#become({ step: 'failed', message: problemOf(error) })
    })
  }

  /** Without a person asking: failures show only where a person looks. Answers a newer version that was not known before. */
  async lookQuietly(): Promise<string | undefined> {
    const { log } = this.#options
    const former = this.#state
    // What is downloaded waits for a person, not for another download.
    if (isUnderWay(former) || former.step === 'downloaded' || this.#options.refusal() !== undefined) return undefined
    const before = 'version' in former ? former.version : undefined
    try {
      await this.#look()
    } catch (error) {
      log.warn('no update could be looked for', { error })
      this.#become(former)
    }
    const now = this.#state
    return now.step === 'available' && now.version !== before ? now.version : undefined
  }

  #work(action: UpdateAction): Promise<void> {
    const now = this.#state
    if (action === 'dismiss') {
      if (now.step === 'failed') this.#become({ step: 'unknown' })
      return Promise.resolve()
    }
    const why = this.#options.refusal()
    if (why !== undefined) throw new LinkError('refused', sharedWords.noUpdates[why])
    if (action === 'look' && now.step === 'downloaded') return Promise.resolve()
    if (action === 'look' && !isUnderWay(now)) return this.#look()
    if (action === 'download' && now.step === 'available') return this.#fetch(now)
    if (action === 'install' && now.step === 'downloaded') return this.#install(now.version)
    if (action === 'cancel' && now.step === 'downloading') {
      this.#download?.abort()
      return Promise.resolve()
    }
    throw new LinkError('refused', updateWords.problems.otherStep)
  }

  async #look(): Promise<void> {
    const { source, version: runs } = this.#options
    this.#become({ step: 'looking' })
    const { version, isNewer, bytes } = await source.look()
    if (isNewer) this.#become({ step: 'available', version, ...(bytes !== undefined && { bytes }) })
    else {
      const at = new Date().toISOString()
      this.#become({ step: 'newest', at, ...(version !== runs && { offered: version }) })
    }
  }

  async #fetch(available: Extract<UpdateState, { step: 'available' }>): Promise<void> {
    const { source, log, freeBytes } = this.#options
    const { version, bytes } = available
    const abort = new AbortController()
    this.#download = abort
    this.#become({ step: 'downloading', version, doneBytes: 0 })
    try {
      const free = await freeBytes()
      const needed = (bytes ?? 0) * spaceFactor
      if (free !== undefined && free < needed) {
        throw new UpdateError(updateWords.problems.space(needed, free))
      }
      await source.download((now) => this.#become({ step: 'downloading', version, ...now }), abort.signal)
      log.info('downloaded an update', { version })
      this.#become({ step: 'downloaded', version })
    } catch (error) {
      if (!abort.signal.aborted) throw error
      log.info('the download of an update was cancelled', { version })
      this.#become(available)
    } finally {
      this.#download = undefined
    }
  }

  async #install(version: string): Promise<void> {
    const { source, log, stateDir, version: from, endBy, relaunch } = this.#options
    this.#become({ step: 'installing', version })
    await source.stage()
    log.info('ends for an update', { from, to: version })
    try {
      await writeHandOver(stateDir, { from, to: version, atMs: Date.now() })
    } catch (error) {
      log.warn('the next start will not say what became of the update', { error })
    }
    await endBy(() => {
      const failed = (error?: Error) => {
        log.error('macOS did not take the update', { error })
        relaunch()
      }
      setTimeout(failed, endLimitMs)
      source.install(failed).catch(failed)
    })
  }

  #become(state: UpdateState): void {
    this.#state = state
    this.#options.onState(state)
  }
}

const isUnderWay = ({ step }: UpdateState): boolean =>
  step === 'looking' || step === 'downloading' || step === 'installing'

/** Time until the first check after a start, when other work comes first. */
const firstMs = 60_000
const intervalMs = 86_400_000

/** Looks once a day while that is wanted, and at once when a person begins to want it. Answers what is to be called when it may have changed. */
export function lookRegularly(isWanted: () => boolean, look: () => void): () => void {
  let timer: NodeJS.Timeout | undefined
  let hasBegun = false
  const next = (waitMs: number) => {
    timer = setTimeout(() => {
      look()
      next(intervalMs)
    }, waitMs)
  }
  return () => {
    const isOn = timer !== undefined
    if (isWanted() && !isOn) {
      if (hasBegun) look()
      next(hasBegun ? intervalMs : firstMs)
    }
    if (!isWanted() && isOn) {
      clearTimeout(timer)
      timer = undefined
    }
    hasBegun = true
  }
}

/** After that the start has another reason than the update. */
const validMs = 300_000
const maxBytes = 10_000

const version = z.string().max(100)
const marker = z.object({ from: version, to: version, atMs: z.number() })
export type HandOver = z.infer<typeof marker>

const fileIn = (stateDir: string): string => path.join(stateDir, 'update.json')

/** Before the app ends for an update. Throws what the disk answers. */
export const writeHandOver = (stateDir: string, handOver: HandOver): Promise<void> =>
  writeFileAtomic(fileIn(stateDir), `${JSON.stringify(handOver)}\n`, { mode: 0o600 })

/** Once, at the next start. One that is torn, old or of the future counts as none. Throws what the disk answers. */
export async function takeHandOver(
  stateDir: string,
  runs: string,
  nowMs = Date.now(),
): Promise<LastUpdate | undefined> {
  const file = fileIn(stateDir)
  const text = await readIfThere(file, maxBytes)
  if (text === undefined) return undefined
  await rm(file, { force: true })
  const found = marker.safeParse(parseJson(text))
  if (!found.success || Math.abs(nowMs - found.data.atMs) > validMs) return undefined
  return { wanted: found.data.to, runs }
}
