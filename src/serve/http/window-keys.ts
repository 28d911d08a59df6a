import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

/** From printing a URL to opening it: an old URL in a terminal's scrollback is worth nothing. */
const tokenMs = 2 * 60_000
/** A page that was unused for so long asks for a new URL. */
const bearerIdleMs = 12 * 3_600_000
/** More windows than a person has; the window unused for longest gives way. */
const maxKeys = 64

interface Key {
  readonly digest: Buffer
  expiresAt: number
}

/** The keys to the window's carrier: tokens that a URL carries once, and the bearers they are exchanged for. */
export class WindowKeys {
  readonly #now: () => number
  #tokens: Key[] = []
  #bearers: Key[] = []

  /** `now`: monotonic milliseconds. */
  constructor(now: () => number) {
    this.#now = now
  }

  mintToken(): string {
    const token = newSecret()
    this.#tokens = [...this.#tokens, { digest: digestOf(token), expiresAt: this.#now() + tokenMs }].slice(-maxKeys)
    return token
  }

  /** A bearer for a token, which is worth nothing after it. */
  exchange(token: string): string | undefined {
    const key = this.#find(this.#tokens, token)
    if (!key) return undefined
    this.#tokens = this.#tokens.filter((other) => other !== key)
    const bearer = newSecret()
    this.#bearers = [...this.#bearers, this.#fresh(digestOf(bearer))].slice(-maxKeys)
    return bearer
  }

  /** Also notes that it is in use. */
  accepts(bearer: string): boolean {
    const key = this.#find(this.#bearers, bearer)
    if (!key) return false
    this.#bearers = [...this.#bearers.filter((other) => other !== key), this.#fresh(key.digest)]
    return true
  }

  #fresh(digest: Buffer): Key {
    return { digest, expiresAt: this.#now() + bearerIdleMs }
  }

  /** Looks at every key in full, so that the time it takes tells nothing. */
  #find(keys: readonly Key[], secret: string): Key | undefined {
    const digest = digestOf(secret)
    const now = this.#now()
    return keys.reduce<Key | undefined>(
      (found, key) => (timingSafeEqual(key.digest, digest) && key.expiresAt > now ? key : found),
      undefined,
    )
  }
}

const newSecret = () => randomBytes(32).toString('base64url')

const digestOf = (secret: string) => createHash('sha256').update(secret).digest()
