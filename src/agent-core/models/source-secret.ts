import { ModelError } from './errors.ts'
import { parseModelSource } from './source.ts'

/** What stands in the Secret that a Model's `spec.sourceSecretRef` names: read at each use, and kept nowhere. */
export interface SourceSecret {
  readonly namespace: string
  readonly name: string
  /** It has the label `hubTokenLabel`. */
  readonly isForHub?: boolean
  /** By key, as text. */
  readonly values: Readonly<Record<string, string>>
}

export const secretTitle = ({ namespace, name }: Pick<SourceSecret, 'namespace' | 'name'>): string =>
  `Secret ${namespace}/${name}`

/** Undefined where there is nothing but spaces under the key. */
export function valueOf({ values }: SourceSecret, key: string): string | undefined {
  const value = Object.hasOwn(values, key) ? (values[key]?.trim() ?? '') : ''
  return value === '' ? undefined : value
}

/** A sentence about a missing key names no more than this many of the keys that are there. */
const maxShownKeys = 10

/** Which keys a Secret has, for a sentence. */
export function keysOf({ values }: SourceSecret): string {
  const keys = Object.keys(values).sort().slice(0, maxShownKeys)
  return keys.length === 0 ? 'it is empty' : `its keys: ${keys.join(', ')}`
}

/** `source`: the Model's. */
export const secretMissing = (namespace: string, name: string, source: string): ModelError =>
  ModelError.untilRepairedHere(
    'SecretMissing',
    `${secretTitle({ namespace, name })}, which spec.sourceSecretRef names, does not exist: create it with ${keysFor(source)}, or remove sourceSecretRef.`,
  )

const keysFor = (source: string): string =>
  parseModelSource(source).kind === 's3' ? 'the keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY' : 'the key HF_TOKEN'

/** `why` completes "… cannot be read (…)". */
export const secretUnreadable = (namespace: string, name: string, why: string, cause?: unknown): ModelError =>
  ModelError.untilRepairedHere(
    'SecretUnreadable',
    `${secretTitle({ namespace, name })}, which spec.sourceSecretRef names, cannot be read (${why}): allow this agent to get Secrets in ${namespace}, or remove sourceSecretRef.`,
    cause,
  )
