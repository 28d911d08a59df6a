/** How the server process answers requests for one path. Everything that may happen `times` happens to the first answers. */
export interface Behaviour {
  readonly sizeBytes: number
  readonly seed: string
  /** The content and its ETag after so many requests. */
  readonly later?: { readonly afterRequests: number; readonly seed: string; readonly etag: string }
  readonly etag?: string
  readonly lastModified?: string
  /** When the answer says it was made; default: now. */
  readonly date?: string
  /** False: answers 200 with everything, whatever is asked for. */
  readonly ranges?: boolean
  /** This status in place of 206 or 200. */
  readonly status?: {
    readonly code: number
    readonly headers?: Readonly<Record<string, string>>
    readonly times: number
  }
  /** Only to requests with a range. */
  readonly rangeStatus?: number
  /** 429 to more answers at the same time. */
  readonly maxConnections?: number
  /** Ends the connection after so many bytes of a body. */
  readonly drop?: { readonly afterBytes: number; readonly times: number }
  /** Sends so many bytes of a body and then a byte now and then. */
  readonly drip?: { readonly afterBytes: number; readonly everyMs: number; readonly times: number }
  /** Of each answer. */
  readonly bytesPerSecond?: number
  /** The length that is said, whatever is sent. */
  readonly declaredBytes?: number
  readonly redirect?: string
  readonly encoding?: 'gzip' | 'zstd'
  readonly html?: boolean
  /** No length is said. */
  readonly chunked?: boolean
  /** 401 without this header. */
  readonly authorization?: string
}

export interface SeenRequest {
  readonly path: string
  readonly authorization?: string
  readonly range?: string
  readonly ifRange?: string
  readonly host: string
  readonly status: number
  /** Given to the system for sending by now. */
  readonly sentBytes: number
}

/** Files in PEM. */
export interface CertificateFiles {
  readonly keyFile: string
  readonly certificateFile: string
}

export interface ProxyOptions {
  /** `user:password` that it asks for. */
  readonly login?: string
  /** The status that it answers everything with. */
  readonly refuses?: number
  /** It is spoken to over TLS. */
  readonly tls?: CertificateFiles
}

export type ServerOrder =
  { readonly kind: 'serve'; readonly path: string; readonly behaviour: Behaviour } | { readonly kind: 'requests' }

export type ServerNews =
  | { readonly kind: 'listening'; readonly port: number }
  | { readonly kind: 'served' }
  | { readonly kind: 'requests'; readonly requests: readonly SeenRequest[] }
