/** Which requests a fault is for; everything that is not named matches. */
export interface RequestMatch {
  readonly verb?: string | readonly string[]
  /** The plural, with its subresource where there is one: `models`, `inferenceservices/status`. */
  readonly resource?: string
  readonly namespace?: string
  readonly name?: string
  /** Matched against path and query. */
  readonly path?: RegExp
  readonly user?: string
}

/** What goes wrong with the request itself. */
export type RequestFault =
  /** No answer, ever. */
  | { readonly kind: 'stall' }
  /** The connection is reset before the answer. */
  | { readonly kind: 'reset' }
  /** The request takes effect, and the connection is reset instead of the answer. */
  | { readonly kind: 'reset-after' }
  | {
      readonly kind: 'status'
      readonly code: number
      readonly reason?: string
      readonly message?: string
      readonly retryAfterSeconds?: number
    }
  /** The answer comes in pieces of `bytes`, one every `everyMs`. */
  | { readonly kind: 'slow-body'; readonly bytes: number; readonly everyMs: number }
  /** Half of the answer, then a reset. */
  | { readonly kind: 'half-body' }
  /** A list names a next page after each, and that is the first one again. */
  | { readonly kind: 'endless-list' }

/** What goes wrong on an accepted watch, once it has sent `after` events (0 when absent). */
export type WatchFault =
  /** Nothing more, bookmarks included; the connection stays open. */
  | { readonly kind: 'silence'; readonly after?: number }
  | { readonly kind: 'close'; readonly after?: number }
  | { readonly kind: 'reset-watch'; readonly after?: number }
  /** An ERROR event with this Status, then the end of the stream; 410 unless told. */
  | {
      readonly kind: 'error-event'
      readonly after?: number
      readonly code?: number
      readonly reason?: string
      readonly message?: string
    }
  /** The next event stops in the middle of its line, then the stream ends. */
  | { readonly kind: 'half-line'; readonly after?: number }
  /** A line that is no JSON goes before the next event. */
  | { readonly kind: 'malformed-line'; readonly after?: number }
  /** The next `count` events (1) never arrive. */
  | { readonly kind: 'lose'; readonly after?: number; readonly count?: number }
  /** The next event arrives twice. */
  | { readonly kind: 'duplicate'; readonly after?: number }
  /** The next two events change places. */
  | { readonly kind: 'reorder'; readonly after?: number }

export type Fault = RequestFault | WatchFault

export interface FaultRule {
  readonly on?: RequestMatch
  /** How many matching requests it hits; 1 unless told, `Infinity` for every one. */
  readonly times?: number
  /** How many matching requests it lets pass first. */
  readonly skip?: number
  readonly fault: Fault
}

export interface SeenRequest {
  readonly verb: string
  readonly resource: string
  readonly namespace: string
  readonly name: string
  readonly path: string
  readonly user: string
}

export interface ActiveFault {
  readonly hits: number
  remove(): void
}

/** Rules about what goes wrong; the first rule that matches and is not used up hits. */
export class Faults {
  #rules: { readonly rule: FaultRule; seen: number; hits: number }[] = []

  add(rule: FaultRule): ActiveFault {
    const active = { rule, seen: 0, hits: 0 }
    this.#rules.push(active)
    return {
      get hits() {
        return active.hits
      },
      remove: () => {
        this.#rules = this.#rules.filter((other) => other !== active)
      },
    }
  }

  /** Requests and watches that already suffer keep suffering. */
  clear(): void {
    this.#rules = []
  }

  /** What goes wrong with this request; counts it as hit. */
  take(request: SeenRequest): Fault | undefined {
    for (const active of this.#rules) {
      const { on = {}, times = 1, skip = 0, fault } = active.rule
      if (active.hits >= times || !isMatch(on, request)) continue
      active.seen += 1
      if (active.seen <= skip) continue
      active.hits += 1
      return fault
    }
    return undefined
  }
}

export function isMatch(on: RequestMatch, request: SeenRequest): boolean {
  const verbs = typeof on.verb === 'string' ? [on.verb] : on.verb
  return (
    (verbs === undefined || verbs.includes(request.verb)) &&
    (on.resource === undefined || on.resource === request.resource) &&
    (on.namespace === undefined || on.namespace === request.namespace) &&
    (on.name === undefined || on.name === request.name) &&
    (on.path === undefined || on.path.test(request.path)) &&
    (on.user === undefined || on.user === request.user)
  )
}

export function isWatchFault(fault: Fault): fault is WatchFault {
  switch (fault.kind) {
    case 'stall':
    case 'reset':
    case 'reset-after':
    case 'status':
    case 'slow-body':
    case 'half-body':
      return false
    default:
      return true
  }
}
