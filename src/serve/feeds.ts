import type { Writable } from 'node:stream'
import type { LinkError, Listener, Looker, Unsubscribe } from '../contract/client.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'
import type { StreamItem, StreamRequest } from '../contract/log.ts'
import type { AgentDoor } from './agent-door.ts'
import { ChunkBacklog } from './chunk-backlog.ts'
import { paced } from './paced.ts'

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
        backlog.push(chunk)
        flush()
      },
      end,
    })
  } catch (error) {
    end(asLinkError(error))
  }
  return stop
}
