import type { LinkErrorCode } from '../../contract/client.ts'

export interface HttpRefusalOptions {
  readonly status: number
  readonly code: LinkErrorCode
  /** One sentence for a person. */
  readonly message: string
  readonly headers?: Readonly<Record<string, string>>
}

/** A request that is answered with something else than 200. */
export class HttpRefusal extends Error {
  override readonly name = 'HttpRefusal'
  readonly status: number
  readonly code: LinkErrorCode
  readonly headers: Readonly<Record<string, string>>

  constructor({ status, code, message, headers = {} }: HttpRefusalOptions) {
    super(message)
    this.status = status
    this.code = code
    this.headers = headers
  }
}
