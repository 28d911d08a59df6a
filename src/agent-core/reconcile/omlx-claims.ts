import { isDeepStrictEqual } from 'node:util'
import {
  agreement,
  type AskedFlag,
  cacheFolderFlag,
  type OmlxAgreement,
  type OmlxClaim,
} from '../runtimes/omlx-settings.ts'

interface OmlxClaimsOptions {
  /** The flags of services that the one which runs was started with. */
  readonly running: () => ReadonlyMap<string, string> | undefined
  readonly allowsFolder: (path: string, namespace: string) => Promise<boolean>
  /** Another service may agree with the others now, or no longer. */
  readonly enqueue: (key: string) => void
  /** Other flags may be asked for. */
  readonly onChange: () => void
}

/** What the services of one cluster ask of the oMLX that this agent starts: as each was seen last, so that a change of one heals the others. */
export class OmlxClaims {
  readonly #options: OmlxClaimsOptions
  readonly #claims = new Map<string, OmlxClaim>()

  constructor(options: OmlxClaimsOptions) {
    this.#options = options
  }

  /** `claim`: undefined where the service is not to be served here by that oMLX. */
  know(key: string, claim: OmlxClaim | undefined): void {
    if (isDeepStrictEqual(claim, this.#claims.get(key))) return
    if (claim) this.#claims.set(key, claim)
    else this.#claims.delete(key)
    for (const other of this.#claims.keys()) if (other !== key) this.#options.enqueue(other)
    this.#options.onChange()
  }

  /** A sentence why it is not served. */
  conflictOf(key: string): string | undefined {
    return this.#claims.has(key) ? this.#agreement().conflicts.get(key) : undefined
  }

  /** The flags that are asked for, but for folders that are closed to who asks. */
  async flags(): Promise<ReadonlyMap<string, string>> {
    const { flags } = this.#agreement()
    const allowed = await Promise.all(flags.map(async (asked) => ((await this.#allows(asked)) ? [asked] : [])))
    return new Map(allowed.flat().map(({ flag, value }) => [flag, value]))
  }

  async #allows({ flag, value, namespace }: AskedFlag): Promise<boolean> {
    return flag !== cacheFolderFlag || (await this.#options.allowsFolder(value, namespace))
  }

  #agreement(): OmlxAgreement {
    return agreement(this.#claims, this.#options.running())
  }
}
