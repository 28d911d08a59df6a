/** What Metalbar leaves on a machine and in a cluster, in the order in which it is removed: what could bring something back goes first. */
export const traceKinds = [
  'service',
  'servers',
  'cluster',
  'loginItem',
  'sudoRule',
  'commandLink',
  'models',
  'token',
  'keychain',
  'macPreferences',
  'crashReports',
  'appData',
  'logs',
  'settings',
  'state',
] as const
export type TraceKind = (typeof traceKinds)[number]

export interface TracePlace {
  /** A path, or what else names it, such as `default/tiny (Service)`. */
  readonly path: string
  /** Absent where it takes no room on this machine. */
  readonly bytes?: number
}

/** One kind of what is there. */
export interface Trace {
  readonly kind: TraceKind
  /** For people. */
  readonly what: string
  /** Removed unless a person says otherwise. */
  readonly isChosen: boolean
  readonly places: readonly TracePlace[]
  /** What is there beside it and is left alone, and why; one sentence each. */
  readonly stays: readonly string[]
  /** It could not be looked at: one sentence. */
  readonly problem?: string
}

/** Everything that can be removed, and which models serve meanwhile, as namespace/name. */
export interface TraceList {
  readonly traces: readonly Trace[]
  readonly serving: readonly string[]
}

/** What became of one kind, after it was looked at again. */
export interface Removal {
  readonly kind: TraceKind
  readonly what: string
  readonly isGone: boolean
  /** One sentence. */
  readonly message: string
  /** Lines for a shell that do what could not be done. */
  readonly byHand: readonly string[]
}
