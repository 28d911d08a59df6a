import { causesOf } from '../util/error-code.ts'

export type ModelErrorReason =
  | 'ModelSourceNotAllowed'
  | 'DownloadHostNotAllowed'
  | 'UnsupportedSource'
  | 'Ambiguous'
  | 'NoSuchFile'
  | 'NoSuchRevision'
  | 'ShardMissing'
  | 'UnsafeName'
  | 'WrongChecksum'
  | 'SecretMissing'
  | 'SecretUnread'
  | 'SecretUnreadable'
  | 'SecretHasNoToken'
  | 'SecretHasNoKeys'
  | 'BadAnswer'
  | 'NoHubApi'
  | 'Offline'
  | 'BadModelName'
  | 'FileMissing'
  | 'FileUnreadable'
  | 'NotAFile'
  | 'EmptyFile'
  | 'NotAModel'
  | 'AccessDenied'
  | 'NotFound'
  | 'HttpRefused'
  | 'RateLimited'
  | 'ServerError'
  | 'Unreachable'
  | 'TlsFailed'
  | 'ProxyFailed'
  | 'BadAuthorityFile'
  | 'BadProxy'
  | 'Truncated'
  | 'RemoteChanged'
  | 'WrongLength'
  | 'ChecksumMismatch'
  | 'Stalled'
  | 'DiskFull'
  | 'NamespaceFull'
  | 'StoreReadOnly'
  | 'StoreNotWritable'
  | 'StoreUnusable'
  | 'StoreEscape'
  | 'StoreGone'
  | 'StoreNotOurs'
  | 'FormatMismatch'
  | 'ShuttingDown'

interface ModelErrorOptions {
  readonly cause?: unknown
  readonly retryAfterMs?: number | undefined
}

/**
 * Why a model is not there. `message` is one sentence for people.
 *
 * `terminal`: only another `spec.source` (or Model) can help, so nothing is tried again.
 * `transient`: tried again with the caller's back-off, never sooner than `retryAfterMs`. What a person has to repair
 * outside the cluster (404, 401, an HTML page, a missing file, a full disk) is transient with a long minimum, because
 * no change of an object tells us when it is repaired.
 */
export class ModelError extends Error {
  readonly kind: 'terminal' | 'transient'
  readonly reason: ModelErrorReason
  readonly retryAfterMs?: number
  /** Where the source means several models: those. */
  readonly choices: readonly ModelChoice[]

  private constructor(
    kind: 'terminal' | 'transient',
    reason: ModelErrorReason,
    message: string,
    { cause, retryAfterMs, choices = [] }: ModelErrorOptions & { readonly choices?: readonly ModelChoice[] } = {},
  ) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'ModelError'
    this.kind = kind
    this.reason = reason
    this.choices = choices
    if (retryAfterMs !== undefined) this.retryAfterMs = retryAfterMs
  }

  static terminal(reason: ModelErrorReason, message: string, choices?: readonly ModelChoice[]): ModelError {
    return new ModelError('terminal', reason, message, choices && { choices })
  }

  /** A person must repair something on this machine; looking again costs a few system calls. */
  static untilRepairedHere(reason: ModelErrorReason, message: string, cause?: unknown): ModelError {
    return new ModelError('transient', reason, message, { cause, retryAfterMs: localRepairMs })
  }

  /** A person must repair a server or an address first: asking more often only fills its log. */
  static untilRepairedThere(reason: ModelErrorReason, message: string, cause?: unknown): ModelError {
    return new ModelError('transient', reason, message, { cause, retryAfterMs: remoteRepairMs })
  }

  /** Passes by itself; `retryAfterMs` where the other side said how long that takes. */
  static passing(reason: ModelErrorReason, message: string, options?: ModelErrorOptions): ModelError {
    return new ModelError('transient', reason, message, options)
  }
}

/** One of the models that a source may mean. */
export interface ModelChoice {
  /** Where the model has several parts, that of the first. */
  readonly path: string
  /** Names this one alone. */
  readonly source: string
  /** All parts together. */
  readonly sizeBytes: number
  readonly quantization?: string
  readonly parts: number
}

export const hasReason = (error: unknown, reasons: readonly ModelErrorReason[]): error is ModelError =>
  error instanceof ModelError && reasons.includes(error.reason)

export const remoteRepairMs = 5 * 60_000

export const localRepairMs = 30_000

/** The sentence of a failure, for a request that is made once and not retried. */
export const asAskedOnce = (message: string, later = 'pull it again later'): string =>
  message.replace(/[:;,](?: so)? the agent (?:waits and )?tries again(?: when that may be over)?\.$/, `; ${later}.`)

/** The last words along the chain of causes: what wraps them seldom says more than that something failed. */
export const innermostMessage = (error: unknown): string =>
  causesOf(error).findLast(({ message }) => message !== '')?.message ?? String(error)
