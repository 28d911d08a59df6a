import type { Writable } from 'node:stream'
import type { LinkError, Listener, Looker, Unsubscribe } from '../contract/client.ts'
import { formatCount } from '../contract/format.ts'
import type { LogChunk, StreamItem, StreamRequest } from '../contract/log.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'
import type { AgentDoor } from './agent-door.ts'

interface Paced {
  /** Has the work done soon, once, however often it is said before that. */
  due(): void
  stop(): void
}

/** Does `work` at most once in `intervalMs`, never within the call that asks for it, and always once after the last of them. */
export function paced(intervalMs: number, work: () => void): Paced {
  let timer: NodeJS.Timeout | undefined
  let lastAt = -Infinity
  let stopped = false
  return {
    due() {
      if (stopped) return
      timer ??= setTimeout(
        () => {
          timer = undefined
          lastAt = performance.now()
          work()
        },
        Math.max(0, Math.ceil(lastAt + intervalMs - performance.now())),
      )
    },
    stop() {
      stopped = true
      clearTimeout(timer)
    },
  }
}

/** A part that did not change is the same object in the next snapshot: its JSON is made once for all readers. */
const made = new WeakMap<object, string>()

/** As `JSON.stringify`, of a snapshot whose parts nobody changes. */
export function snapshotJson(snapshot: AgentSnapshot): string {
  const fields = Object.entries(snapshot)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${JSON.stringify(name)}:${Array.isArray(value) ? listJson(value) : partJson(value)}`)
  return `{${fields.join(',')}}`
}

const listJson = (list: readonly unknown[]): string => `[${list.map(partJson).join(',')}]`

function partJson(part: unknown): string {
  if (typeof part !== 'object' || part === null) return JSON.stringify(part)
  const known = made.get(part)
  if (known !== undefined) return known
  const json = JSON.stringify(part)
  made.set(part, json)
  return json
}

/** Some thousand lines: what a reader can catch up with after a pause, and little enough for many readers. */
const maxWaiting = 256 * 1_024

/** Chunks that wait for a slow reader: where they become too many the oldest are left out, and the next one says so. */
export class ChunkBacklog {
  readonly #waiting: LogChunk[] = []
  readonly #max: number
  #characters = 0
  #skippedLines = 0
  #skippedGap = false

  constructor(max = maxWaiting) {
    this.#max = max
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0
  }

  push(chunk: LogChunk): void {
    this.#waiting.push(chunk)
    this.#characters += sizeOf(chunk)
    while (this.#characters > this.#max && this.#waiting.length > 1) this.#skip()
  }

  /** The oldest one. */
  shift(): LogChunk | undefined {
    const chunk = this.#waiting.shift()
    if (!chunk) return undefined
    this.#characters -= sizeOf(chunk)
    if (this.#skippedLines === 0 && !this.#skippedGap) return chunk
    const gap = [skippedText(this.#skippedLines, this.#skippedGap), chunk.gap].join(' ').trim()
    this.#skippedLines = 0
    this.#skippedGap = false
    return { ...chunk, gap }
  }

  #skip(): void {
    const chunk = this.#waiting.shift()
    if (!chunk) return
    this.#characters -= sizeOf(chunk)
    this.#skippedLines += chunk.lines.length
    this.#skippedGap ||= chunk.gap !== undefined
  }
}

function skippedText(lines: number, andMore: boolean): string {
  if (lines === 0) return 'Lines are missing here.'
  return `Skipped ${andMore ? 'at least ' : ''}${formatCount(lines)} ${lines === 1 ? 'line' : 'lines'}.`
}

const sizeOf = ({ lines }: LogChunk) => lines.reduce((sum, line) => sum + line.length + 1, 0)

/** At most four snapshots a second: more than a person can read, few enough to cost nothing. */
const pushIntervalMs = 250

export interface FeedOptions {
  readonly door: AgentDoor
  /** What the listener writes to; while it is full nothing is handed to the listener. */
  readonly writable: Writable
  /** Makes an answer of a thrown error; logs it where it is a defect of ours. */
  readonly asLinkError: (error: unknown) => LinkError
}

export interface SnapshotFeedOptions extends FeedOptions {
  readonly looker?: Looker
}

/** The snapshot now and after changes; a slow reader gets only the latest. */
export function feedSnapshots(
  { door, writable, asLinkError, looker }: SnapshotFeedOptions,
  listener: Listener<AgentSnapshot>,
): Unsubscribe {
  let isLate = false
  const pace = paced(pushIntervalMs, () => {
    isLate = writable.writableNeedDrain
    if (isLate) return
    try {
      listener.next(door.get(looker))
    } catch (error) {
      stop()
      listener.end(asLinkError(error))
    }
  })
  const onDrain = () => {
    if (isLate) pace.due()
  }
  const unsubscribe = door.subscribe(() => pace.due(), looker)
  const stop = () => {
    unsubscribe()
    pace.stop()
    writable.off('drain', onDrain)
  }
  writable.on('drain', onDrain)
  pace.due()
  return stop
}

/** What a slow reader misses is said in the `gap` of the next chunk. */
export function feedStream(
  { door, writable, asLinkError }: FeedOptions,
  request: StreamRequest,
  listener: Listener<StreamItem>,
): Unsubscribe {
  // An answer is short, and nothing of it is left out.
  if (request.name === 'ask') return door.stream(request, listener)
  const backlog = new ChunkBacklog()
  let unsubscribe: Unsubscribe | undefined
  let ending: LinkError | undefined
  let hasStopped = false
  const flush = () => {
    while (!hasStopped && !writable.writableNeedDrain) {
      const chunk = backlog.shift()
      if (!chunk) break
      listener.next(chunk)
    }
    if (hasStopped || !ending || !backlog.isEmpty) return
    stop()
    listener.end(ending)
  }
  const stop = () => {
    hasStopped = true
    unsubscribe?.()
    writable.off('drain', flush)
  }
  writable.on('drain', flush)
  const end = (error: LinkError) => {
    ending = error
    flush()
  }
  try {
    unsubscribe = door.stream(request, {
      next: (chunk) => {
        if ('lines' in chunk) backlog.push(chunk)
        flush()
      },
      end,
    })
  } catch (error) {
    end(asLinkError(error))
  }
  return stop
}
