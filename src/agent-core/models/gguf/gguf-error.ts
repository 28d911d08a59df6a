export type GgufErrorReason = 'NotGguf' | 'Html' | 'Truncated' | 'Malformed' | 'TooLarge' | 'Unreadable'

/** Why a header cannot be had; `message` is one sentence for people that names the file. */
export class GgufError extends Error {
  readonly reason: GgufErrorReason

  constructor(reason: GgufErrorReason, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'GgufError'
    this.reason = reason
  }
}
