import type { WatchFault } from './faults.ts'
import type { JsonObject, KubeObject } from './json.ts'
import { apiVersionOf, type Kind } from './kinds.ts'
import { namedRevision, type Scope } from './lists.ts'
import { gone, StatusError } from './status-error.ts'
import type { Change, Store } from './store.ts'

/** Where a watch writes. */
export interface WatchSink {
  write(line: string): void
  end(): void
  reset(): void
}

export interface WatchOptions {
  readonly store: Store
  readonly scope: Scope
  readonly query: URLSearchParams
  readonly sink: WatchSink
  readonly bookmarkEveryMs: number
  readonly fault?: WatchFault | undefined
}

/** Without `timeoutSeconds` the real server chooses a time between 30 and 60 minutes. */
const longestWatchMs = 30 * 60_000
/** The real server sends a last bookmark so long before it ends a watch. */
const lastBookmarkMs = 2_000

/** One open watch. It ends by its time limit, by `stop`, or by what a fault does to it. */
export class Watch {
  readonly #options: WatchOptions
  readonly #timers: NodeJS.Timeout[] = []
  readonly #unsubscribe: () => void
  readonly #hasBookmarks: boolean
  #fault: WatchFault | undefined
  #sent = 0
  #losses = 0
  #held: string | undefined
  /** The version this watch began at, or told with its last bookmark. */
  #told = 0
  #isSilent = false
  #isOver = false

  /** Sends what is due at once. Throws a 410 StatusError where the revision is too old. */
  constructor(options: WatchOptions) {
    this.#options = options
    this.#fault = options.fault
    const { store, query, bookmarkEveryMs } = options
    const from = namedRevision(query)
    this.#told = from ?? 0
    this.#unsubscribe = store.onChange((change) => this.#onChange(change))
    this.#hasBookmarks = ['true', '1'].includes(query.get('allowWatchBookmarks') ?? '')
    if (this.#hasBookmarks) this.#timers.push(setInterval(() => this.#news(), bookmarkEveryMs))
    const limitMs = Number(query.get('timeoutSeconds') ?? 0) * 1000 || longestWatchMs
    if (this.#hasBookmarks && limitMs > lastBookmarkMs) {
      this.#timers.push(setTimeout(() => this.#news(), limitMs - lastBookmarkMs))
    }
    this.#timers.push(setTimeout(() => this.end(), limitMs))
    // Faults that need no event strike at once.
    this.#strike()
    this.#begin(from)
  }

  get kind(): Kind {
    return this.#options.scope.kind
  }

  /** The server ends the stream in good order. */
  end(): void {
    if (this.#isOver) return
    this.stop()
    this.#options.sink.end()
  }

  reset(): void {
    if (this.#isOver) return
    this.stop()
    this.#options.sink.reset()
  }

  /** From now on nothing arrives, and nothing says so. */
  silence(): void {
    this.#isSilent = true
  }

  /** An in-stream error event, then the end. */
  fail(error: StatusError): void {
    if (this.#isOver) return
    this.#write('ERROR', error.toBody())
    this.end()
  }

  /** Lets go of timers and store; the stream is the caller's business. */
  stop(): void {
    this.#isOver = true
    this.#unsubscribe()
    for (const timer of this.#timers) clearTimeout(timer)
  }

  #begin(from: number | undefined): void {
    const { store, scope, query } = this.#options
    if (from !== undefined && from > 0 && from < store.compacted) {
      this.fail(gone(`too old resource version: ${from} (${store.compacted})`))
      return
    }
    const isWhole = from === undefined || from === 0 || query.get('sendInitialEvents') === 'true'
    if (!isWhole) {
      for (const change of store.changesSince(from, scope.kind)) this.#onChange(change)
      return
    }
    for (const object of store.list(scope.kind, scope.namespace).filter(scope.selects)) this.#event('ADDED', object)
    if (this.#hasBookmarks) this.#bookmark({ 'k8s.io/initial-events-end': 'true' })
  }

  #onChange(change: Change): void {
    const { kind, namespace, selects } = this.#options.scope
    const { object, before } = change
    if (change.kind.plural !== kind.plural || change.kind.group !== kind.group) return
    if (namespace !== undefined && object.metadata.namespace !== namespace) return
    const wasSelected = before !== undefined && selects(before)
    const isSelected = change.type !== 'DELETED' && selects(object)
    if (!wasSelected && !isSelected) return
    if (wasSelected && isSelected) this.#event('MODIFIED', object)
    else this.#event(isSelected ? 'ADDED' : 'DELETED', object)
  }

  /** A bookmark where something happened since the last one: a watch on a quiet cluster may get none. */
  #news(): void {
    if (this.#options.store.revision > this.#told) this.#bookmark()
  }

  #bookmark(annotations?: Record<string, string>): void {
    this.#told = this.#options.store.revision
    const metadata = { resourceVersion: String(this.#options.store.revision), creationTimestamp: null }
    this.#write('BOOKMARK', {
      kind: this.kind.kind,
      apiVersion: apiVersionOf(this.kind),
      metadata: annotations ? { ...metadata, annotations } : metadata,
    })
  }

  #event(type: 'ADDED' | 'MODIFIED' | 'DELETED', object: KubeObject): void {
    if (this.#isOver || this.#isSilent) return
    const fault = this.#isDue() ? this.#fault : undefined
    const line = `${JSON.stringify({ type, object })}\n`
    this.#sent += 1
    switch (fault?.kind) {
      case 'half-line':
        this.#options.sink.write(line.slice(0, line.length / 2))
        this.end()
        return
      case 'malformed-line':
        this.#fault = undefined
        this.#options.sink.write('{"type":"MODIFIED","object":{"metadata"\n' + line)
        break
      case 'lose':
        this.#losses += 1
        if (this.#losses >= (fault.count ?? 1)) this.#fault = undefined
        break
      case 'duplicate':
        this.#fault = undefined
        this.#options.sink.write(line + line)
        break
      case 'reorder':
        if (this.#held === undefined) this.#held = line
        else {
          this.#fault = undefined
          this.#options.sink.write(line + this.#held)
        }
        break
      default:
        this.#options.sink.write(line)
        this.#strike()
    }
  }

  #write(type: 'BOOKMARK' | 'ERROR', object: JsonObject): void {
    if (!this.#isOver && !this.#isSilent) this.#options.sink.write(`${JSON.stringify({ type, object })}\n`)
  }

  #isDue(): boolean {
    return this.#fault !== undefined && this.#sent >= (this.#fault.after ?? 0)
  }

  /** Faults that end or silence the watch do so as soon as enough events were sent. */
  #strike(): void {
    const fault = this.#isDue() ? this.#fault : undefined
    switch (fault?.kind) {
      case 'silence':
        this.silence()
        break
      case 'close':
        this.end()
        break
      case 'reset-watch':
        this.reset()
        break
      case 'error-event': {
        const { code = 410, reason = 'Expired', message = 'too old resource version: 1 (2)' } = fault
        this.fail(new StatusError(code, reason, message))
        break
      }
      default:
    }
  }
}
