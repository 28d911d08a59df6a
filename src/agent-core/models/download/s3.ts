import { AwsV4Signer } from 'aws4fetch'
import { ModelError } from '../errors.ts'
import { keysOf, secretTitle, type SourceSecret, valueOf } from '../source-secret.ts'
import type { BucketAddress } from '../source.ts'

/** How the objects of a bucket are asked for. */
export interface S3Login {
  readonly bucket: string
  /** The only one that gets a signature: AWS's for the bucket, or the one of `AWS_ENDPOINT_URL`. */
  readonly origin: string
  /** The address before an object's key: at AWS the bucket is in the host name, at other servers it is the first part of the path. */
  readonly prefix: string
  readonly region: string
  /** Absent where objects are asked for as anybody may. */
  readonly keys?: { readonly accessKeyId: string; readonly secretAccessKey: string; readonly sessionToken?: string }
  /** Where the keys come from, for people. */
  readonly from: string
}

export const isS3Login = (credentials: object | undefined): credentials is S3Login =>
  credentials !== undefined && 'bucket' in credentials

const keyNames = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'] as const
const bothKeys = keyNames.join(' and ')

/** The login that the Model's Secret gives. Throws ModelError where the Secret makes no sense. */
export function s3Login({ bucket }: Pick<BucketAddress, 'bucket'>, secret: SourceSecret | undefined): S3Login {
  const region = stated(secret, 'AWS_REGION', /^[a-z0-9-]{1,40}$/, 'a region, as in eu-central-1') ?? 'us-east-1'
  const endpoint = endpointOf(secret)
  const keys = keysFrom(secret)
  if (secret !== undefined && keys === undefined && endpoint === undefined) {
    throw unusable(`${secretTitle(secret)}, which spec.sourceSecretRef names, has no keys for S3 (${keysOf(secret)})`)
  }
  const shared = {
    ...{ bucket, region, from: secret === undefined ? 'a Secret in spec.sourceSecretRef' : secretTitle(secret) },
    ...(keys && { keys }),
  }
  if (endpoint !== undefined) return { ...shared, origin: endpoint, prefix: `/${bucket}/` }
  const host = `s3.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`
  // AWS's certificates are for one name before it.
  return bucket.includes('.')
    ? { ...shared, origin: `https://${host}`, prefix: `/${bucket}/` }
    : { ...shared, origin: `https://${bucket}.${host}`, prefix: '/' }
}

/** The address of an object, without its signature. */
export const objectUrl = ({ origin, prefix }: S3Login, key: string): string =>
  `${origin}${prefix}${key.split('/').map(encoded).join('/')}`

const encoded = (element: string): string =>
  encodeURIComponent(element).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)

/** SHA-256 of no bytes: what a request without a body is signed with. */
const nothing = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

/** The headers that sign a request (AWS Signature Version 4); others may be added to them. */
export async function signature(
  { origin, region, keys }: S3Login,
  method: string,
  url: URL,
): Promise<Readonly<Record<string, string>>> {
  if (keys === undefined || url.origin !== origin) return {}
  const headers = { 'x-amz-content-sha256': nothing }
  const signed = await new AwsV4Signer({ ...keys, method, url: url.href, headers, service: 's3', region }).sign()
  return Object.fromEntries(signed.headers)
}

function keysFrom(secret: SourceSecret | undefined): S3Login['keys'] {
  const [accessKeyId, secretAccessKey] = keyNames.map((name) => stated(secret, name, /^[\x21-\x7e]{1,500}$/, 'a key'))
  const sessionToken = stated(secret, 'AWS_SESSION_TOKEN', /^[\x21-\x7e]{1,8000}$/, 'a token')
  if (accessKeyId === undefined && secretAccessKey === undefined) return undefined
  if (accessKeyId === undefined || secretAccessKey === undefined) {
    const missing = accessKeyId === undefined ? keyNames[0] : keyNames[1]
    throw unusable(`${secret && secretTitle(secret)}, which spec.sourceSecretRef names, lacks ${missing}`)
  }
  return { accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) }
}

/** The value itself is in no sentence. */
function stated(secret: SourceSecret | undefined, key: string, form: RegExp, what: string): string | undefined {
  const value = secret && valueOf(secret, key)
  if (secret === undefined || value === undefined || form.test(value)) return value
  throw unusable(`${key} of ${secretTitle(secret)}, which spec.sourceSecretRef names, is not ${what}`)
}

function endpointOf(secret: SourceSecret | undefined): string | undefined {
  const value = secret && valueOf(secret, 'AWS_ENDPOINT_URL')
  if (secret === undefined || value === undefined) return undefined
  const url = URL.parse(value)
  const isOrigin = url !== null && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`
  if (isOrigin) return url.origin
  throw ModelError.untilRepairedHere(
    'SecretHasNoKeys',
    `AWS_ENDPOINT_URL of ${secretTitle(secret)}, which spec.sourceSecretRef names, is not the address of a server: write it as https://host or http://host:9000, without a login or a path.`,
  )
}

const unusable = (what: string): ModelError =>
  ModelError.untilRepairedHere('SecretHasNoKeys', `${what}: put ${bothKeys} there.`)

interface S3Answer {
  readonly status: number
  readonly headers: Headers
  /** The beginning of its body; that of an answer to HEAD is empty. */
  readonly text: string
}

/** What an answer means that is not the object; undefined where it means what it would of any server. */
export function s3Refusal(
  { status, headers, text }: S3Answer,
  login: S3Login,
  shown: string,
  now: number,
): ModelError | undefined {
  const { bucket, origin, region, keys, from } = login
  // Codes of the S3 API 2006-03-01, as AWS listed them in 2026.
  const code = /<Code>([A-Za-z0-9]{1,60})<\/Code>/.exec(text)?.[1]
  const told = headers.get('x-amz-bucket-region') ?? /<Region>([^<]*)<\/Region>/.exec(text)?.[1] ?? ''
  const there = /^[a-z0-9-]{1,40}$/.test(told) ? told : undefined
  const refused = (reason: 'AccessDenied' | 'NotFound' | 'HttpRefused', sentence: string) =>
    ModelError.untilRepairedThere(reason, sentence)
  if (there !== undefined && there !== region && (status === 301 || status === 400)) {
    return refused(
      'HttpRefused',
      `The bucket ${bucket} is in the region ${there} and was asked for in ${region}: put ${there} under AWS_REGION into ${from}.`,
    )
  }
  switch (code ?? '') {
    case 'NoSuchBucket':
      return refused(
        'NotFound',
        `${origin} has no bucket ${bucket}: correct spec.source, or AWS_ENDPOINT_URL in ${from}.`,
      )
    case 'InvalidAccessKeyId':
      return refused('AccessDenied', `${origin} does not know the AWS_ACCESS_KEY_ID of ${from}: replace it.`)
    case 'SignatureDoesNotMatch':
      return refused('AccessDenied', `${origin} does not accept the AWS_SECRET_ACCESS_KEY of ${from}: replace it.`)
    case 'ExpiredToken':
    case 'InvalidToken':
      return refused('AccessDenied', `${origin} does not accept the AWS_SESSION_TOKEN of ${from}: put a new one there.`)
    case 'RequestTimeTooSkewed':
      return refused(
        'AccessDenied',
        `${origin} refuses requests from this machine${skew(headers, now)}: set the clock.`,
      )
    case 'InvalidObjectState':
      return refused('AccessDenied', `${shown} is archived in S3: restore it there first.`)
  }
  if (status === 404)
    return refused('NotFound', `${origin} has no object ${shown}: correct spec.source or put it there.`)
  if (status !== 401 && status !== 403) return undefined
  return refused(
    'AccessDenied',
    keys === undefined
      ? `${shown} is not public: put ${bothKeys} into ${from}.`
      : `${shown} cannot be read with the key of ${from}, or is not there (${code ?? status}): allow the key s3:GetObject, or correct spec.source.`,
  )
}

function skew(headers: Headers, now: number): string {
  const seconds = Math.round((now - Date.parse(headers.get('date') ?? '')) / 1_000)
  if (!Number.isFinite(seconds)) return ', whose clock differs from its own'
  return `, whose clock is ${Math.abs(seconds)} s ${seconds < 0 ? 'behind' : 'ahead of'} its own`
}
