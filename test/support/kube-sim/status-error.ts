import type { JsonObject } from './json.ts'

export interface ResourceName {
  readonly group: string
  readonly plural: string
  readonly kind: string
}

/** One field that validation refused; `message` is written as the real server writes it, without the path. */
export interface FieldError {
  readonly field: string
  readonly reason: 'FieldValueInvalid' | 'FieldValueRequired' | 'FieldValueNotSupported' | 'FieldValueDuplicate'
  readonly message: string
}

/** A request refused with the `Status` body that the real server answers. */
export class StatusError extends Error {
  override readonly name = 'StatusError'
  readonly code: number
  readonly reason: string
  readonly details: JsonObject
  readonly headers: Readonly<Record<string, string>>
  /** Only an expired list answers with one: the rest of the list as it is now. */
  readonly continueToken: string | undefined

  constructor(
    code: number,
    reason: string,
    message: string,
    extra: { details?: JsonObject; headers?: Readonly<Record<string, string>>; continueToken?: string } = {},
  ) {
    super(message)
    this.code = code
    this.reason = reason
    this.details = extra.details ?? {}
    this.headers = extra.headers ?? {}
    this.continueToken = extra.continueToken
  }

  toBody(): JsonObject {
    return {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: this.continueToken === undefined ? {} : { continue: this.continueToken },
      status: 'Failure',
      message: this.message,
      ...(this.reason === '' ? {} : { reason: this.reason }),
      ...(Object.keys(this.details).length > 0 ? { details: this.details } : {}),
      code: this.code,
    }
  }
}

export const qualified = ({ group, plural }: ResourceName): string => (group === '' ? plural : `${plural}.${group}`)

const detailsOf = ({ group, plural }: ResourceName, name: string): JsonObject => ({
  name,
  ...(group === '' ? {} : { group }),
  kind: plural,
})

export const notFound = (resource: ResourceName, name: string): StatusError =>
  new StatusError(404, 'NotFound', `${qualified(resource)} ${JSON.stringify(name)} not found`, {
    details: detailsOf(resource, name),
  })

export const alreadyExists = (resource: ResourceName, name: string): StatusError =>
  new StatusError(409, 'AlreadyExists', `${qualified(resource)} ${JSON.stringify(name)} already exists`, {
    details: detailsOf(resource, name),
  })

export const conflict = (resource: ResourceName, name: string, why: string): StatusError =>
  new StatusError(
    409,
    'Conflict',
    `Operation cannot be fulfilled on ${qualified(resource)} ${JSON.stringify(name)}: ${why}`,
    { details: detailsOf(resource, name) },
  )

export const modified = (resource: ResourceName, name: string): StatusError =>
  conflict(
    resource,
    name,
    'the object has been modified; please apply your changes to the latest version and try again',
  )

export function invalid(
  { group, kind }: Pick<ResourceName, 'group' | 'kind'>,
  name: string,
  errors: readonly FieldError[],
): StatusError {
  const texts = errors.map(({ field, message }) => `${field}: ${message}`)
  const what = texts.length === 1 ? (texts[0] ?? '') : `[${texts.join(', ')}]`
  const qualifiedKind = group === '' ? kind : `${kind}.${group}`
  return new StatusError(422, 'Invalid', `${qualifiedKind} ${JSON.stringify(name)} is invalid: ${what}`, {
    details: {
      name,
      ...(group === '' ? {} : { group }),
      kind,
      causes: errors.map(({ field, reason, message }) => ({ reason, message, field })),
    },
  })
}

export const badRequest = (message: string): StatusError => new StatusError(400, 'BadRequest', message)

export const gone = (message: string, continueToken?: string): StatusError =>
  new StatusError(410, 'Expired', message, continueToken === undefined ? {} : { continueToken })

export const unauthorized = (): StatusError => new StatusError(401, 'Unauthorized', 'Unauthorized')

export const fieldInvalid = (field: string, value: string, why: string): FieldError => ({
  field,
  reason: 'FieldValueInvalid',
  message: `Invalid value: ${value}: ${why}`,
})

export const fieldRequired = (field: string, why?: string): FieldError => ({
  field,
  reason: 'FieldValueRequired',
  message: why === undefined ? 'Required value' : `Required value: ${why}`,
})

export const fieldUnsupported = (field: string, value: string, supported: readonly string[]): FieldError => ({
  field,
  reason: 'FieldValueNotSupported',
  message: `Unsupported value: ${value}: supported values: ${supported.map((one) => JSON.stringify(one)).join(', ')}`,
})

export const fieldDuplicate = (field: string, value: string): FieldError => ({
  field,
  reason: 'FieldValueDuplicate',
  message: `Duplicate value: ${value}`,
})
