import type { ClusterChoiceOptions } from './cluster-choice.ts'
import type { ClusterSession } from './cluster-session.ts'
import type { PinnedContext } from '../kube/pinned-context.ts'
import type { Logger } from '../observability/logger.ts'

export interface ClusterLinkOptions extends ClusterChoiceOptions {
  /** To be served. Absent = all of them. */
  readonly namespace: () => string | undefined
  readonly open: (context: PinnedContext, hooks: SessionHooks) => ClusterSession
  /** What must be known before anything is decided in a session. */
  readonly beforeStart: () => Promise<void>
  /** Called when services were left for good, so that what was told of them can be forgotten. */
  readonly onLeft: (isLeft: (key: string) => boolean) => void
  /** A move waits no longer for what it leaves, in milliseconds. */
  readonly leaveLimitMs: () => number
  /** Called with a sentence where a move did not wait for all that it leaves: it comes down beside what is served then. */
  readonly onLeftBehind: (message: string) => void
  /** Called when a move has ended: what is served may come from other files now. */
  readonly onMoved: () => void
  /** How many watches failed in a row; undefined while nothing is watched. */
  readonly onWatchFailures: (failures: number | undefined) => void
  readonly log: Logger
  /** Something that a snapshot shows has changed. */
  readonly onChange: () => void
}

/** What a session tells the link. */
export interface SessionHooks {
  readonly onClusterState: () => void
  readonly onChange: () => void
}
