import { LinkError } from '../../contract/client.ts'
import { tokenParameter } from '../../contract/http.ts'
import { linkWords } from '../words/connection.ts'

const storageKey = 'metalbar.bearer'

/** The right of this page to ask the agent: a token that is good once, then the bearer it is exchanged for. */
export class Access {
  readonly #storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>
  readonly #exchange: (token: string) => Promise<string>
  #token: string | undefined
  #underWay: Promise<string> | undefined

  /** @param token The page's own; without one the page goes on with the bearer it had before it was loaded again. */
  constructor(
    token: string | undefined,
    storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>,
    exchange: (token: string) => Promise<string>,
  ) {
    this.#token = token
    this.#storage = storage
    this.#exchange = exchange
  }

  /** Throws LinkError. */
  async bearer(): Promise<string> {
    if (this.#token === undefined) {
      const bearer = this.#storage.getItem(storageKey)
      if (bearer === null) throw new LinkError('refused', linkWords.noAccess)
      return bearer
    }
    this.#underWay ??= this.#redeem(this.#token).finally(() => (this.#underWay = undefined))
    return this.#underWay
  }

  /** The agent does not know the bearer any more. */
  forget(): void {
    this.#storage.removeItem(storageKey)
  }

  /** An agent that does not answer leaves the token good. */
  async #redeem(token: string): Promise<string> {
    try {
      const bearer = await this.#exchange(token)
      this.#storage.setItem(storageKey, bearer)
      this.#token = undefined
      return bearer
    } catch (error) {
      if (!(error instanceof LinkError && error.code === 'gone')) this.#token = undefined
      throw error
    }
  }
}

/** Takes the token out of the address bar, where it would be seen and kept in the history. */
export function takeToken({ location, history }: AddressBar): string | undefined {
  const token = new URLSearchParams(location.hash.slice(1)).get(tokenParameter)
  if (location.hash !== '') history.replaceState(null, '', location.pathname)
  return token ?? undefined
}

/** What of a Window it takes. */
interface AddressBar {
  readonly location: { readonly hash: string; readonly pathname: string }
  readonly history: { replaceState(data: null, unused: string, url: string): void }
}
