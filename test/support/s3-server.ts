import { createHash, createHmac } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

interface S3Keys {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string
}

interface SeenS3Request {
  readonly method: string
  readonly path: string
  readonly range: string | undefined
  readonly isSigned: boolean
  readonly sessionToken: string | undefined
  readonly status: number
}

export interface S3Server extends AsyncDisposable {
  /** For AWS_ENDPOINT_URL. */
  readonly origin: string
  readonly requests: readonly SeenS3Request[]
  /** Objects by `bucket/key`; may be changed at any time. */
  readonly objects: Map<string, Buffer>
  /** Objects that are given without a signature. */
  readonly open: Set<string>
  /** The next answers close their connection after so many bytes of body, one number each. */
  readonly drops: number[]
  /** How far this server's clock is ahead. */
  skewMs: number
  /** Answers every request with this code of S3 while set. */
  refusal: { readonly status: number; readonly code: string } | undefined
  /** Sends every request that is signed well to this origin while set. */
  movedTo: string | undefined
}

export const s3Region = 'eu-test-1'
/** Of the service: a request may be so old. */
const maxSkewMs = 15 * 60_000

/** An S3 server (path style) that checks signatures by AWS's specification of Signature Version 4, with code of its own. */
export async function startS3Server(keys: S3Keys): Promise<S3Server> {
  const requests: SeenS3Request[] = []
  const state = { objects: new Map<string, Buffer>(), open: new Set<string>(), drops: [] as number[], skewMs: 0 }
  const s3 = { ...state, refusal: undefined as S3Server['refusal'], movedTo: undefined as S3Server['movedTo'] }

  function refusalOf(
    request: IncomingMessage,
    name: string,
  ): { status: number; code: string; more?: string } | undefined {
    const { authorization } = request.headers
    if (s3.refusal) return s3.refusal
    if (authorization === undefined) return s3.open.has(name) ? undefined : { status: 403, code: 'AccessDenied' }
    const stated = parsedAuthorization(authorization)
    if (stated === undefined) return { status: 400, code: 'AuthorizationHeaderMalformed' }
    if (stated.accessKeyId !== keys.accessKeyId) return { status: 403, code: 'InvalidAccessKeyId' }
    if (stated.region !== s3Region) {
      return { status: 400, code: 'AuthorizationHeaderMalformed', more: `<Region>${s3Region}</Region>` }
    }
    if (request.headers['x-amz-security-token'] !== keys.sessionToken) return { status: 403, code: 'InvalidToken' }
    const at = dateOf(String(request.headers['x-amz-date']))
    if (!(Math.abs(Date.now() + s3.skewMs - at) < maxSkewMs)) return { status: 403, code: 'RequestTimeTooSkewed' }
    const headers = new Map(Object.entries(request.headers).map(([key, value]) => [key, String(value)]))
    const { method = '', url = '' } = request
    const isRight = signatureOf({ method, target: url, headers }, stated, keys.secretAccessKey) === stated.signature
    return isRight ? undefined : { status: 403, code: 'SignatureDoesNotMatch' }
  }

  function answer(request: IncomingMessage, response: ServerResponse): number {
    const date = new Date(Date.now() + s3.skewMs).toUTCString()
    const name = decodeURIComponent((request.url ?? '').slice(1))
    const refuse = ({ status, code, more = '' }: { status: number; code: string; more?: string }): number => {
      const body = `<?xml version="1.0"?><Error><Code>${code}</Code><Message>x</Message>${more}</Error>`
      response.writeHead(status, { date, 'content-type': 'application/xml' }).end(request.method === 'HEAD' ? '' : body)
      return status
    }
    const refusal = refusalOf(request, name)
    if (refusal) return refuse(refusal)
    if (s3.movedTo !== undefined) {
      response.writeHead(307, { date, location: `${s3.movedTo}${request.url ?? ''}` }).end()
      return 307
    }
    const content = s3.objects.get(name)
    if (content === undefined) {
      const bucket = name.split('/')[0] ?? ''
      const isBucket = [...s3.objects.keys()].some((key) => key.startsWith(`${bucket}/`))
      return refuse({ status: 404, code: isBucket ? 'NoSuchKey' : 'NoSuchBucket' })
    }
    const etag = `"${createHash('md5').update(content).digest('hex')}"`
    const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? []
    const start = Number(from ?? 0)
    const end = to === undefined || to === '' ? content.length : Math.min(content.length, Number(to) + 1)
    if (from !== undefined && start >= content.length) return refuse({ status: 416, code: 'InvalidRange' })
    const status = from === undefined ? 200 : 206
    const part = content.subarray(start, end)
    response.writeHead(status, {
      ...{ date, etag, 'content-type': 'binary/octet-stream', 'content-length': part.length, 'accept-ranges': 'bytes' },
      ...(from !== undefined && { 'content-range': `bytes ${start}-${end - 1}/${content.length}` }),
    })
    const drop = request.method === 'HEAD' ? undefined : s3.drops.shift()
    if (request.method === 'HEAD') response.end()
    else if (drop === undefined) response.end(part)
    else response.write(part.subarray(0, drop), () => response.destroy())
    return status
  }

  const server = createServer((request, response) => {
    const { method = '', url: path = '', headers } = request
    const isSigned = headers.authorization !== undefined
    const sessionToken = headers['x-amz-security-token']?.toString()
    const status = answer(request, response)
    requests.push({ method, path, range: headers.range, isSigned, sessionToken, status })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // a TCP server that listens has no other kind
  return Object.assign(s3, {
    origin: `http://127.0.0.1:${port}`,
    requests,
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  })
}

interface SignedRequest {
  readonly method: string
  /** Path and query as they were sent. */
  readonly target: string
  /** By names in small letters. */
  readonly headers: ReadonlyMap<string, string>
}

interface Authorization {
  readonly accessKeyId: string
  readonly day: string
  readonly region: string
  readonly signedHeaders: string
  readonly signature: string
}

export function parsedAuthorization(header: string): Authorization | undefined {
  const [, accessKeyId, day, region, signedHeaders, signature] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})$/.exec(
      header,
    ) ?? []
  if (accessKeyId === undefined || day === undefined || region === undefined) return undefined
  if (signedHeaders === undefined || signature === undefined) return undefined
  return { accessKeyId, day, region, signedHeaders, signature }
}

/** What the signature of a request has to be. */
export function signatureOf(
  { method, target, headers }: SignedRequest,
  { day, region, signedHeaders }: Pick<Authorization, 'day' | 'region' | 'signedHeaders'>,
  secretAccessKey: string,
): string {
  const [path = '', query = ''] = target.split('?')
  const canonicalQuery = query === '' ? '' : query.split('&').sort().join('&')
  const canonicalHeaders = signedHeaders
    .split(';')
    .map((name) => `${name}:${(headers.get(name) ?? '').trim().replace(/ +/g, ' ')}\n`)
    .join('')
  const payload = headers.get('x-amz-content-sha256') ?? ''
  const canonicalPath = path
    .split('/')
    .map((element) => uriEncoded(decodeURIComponent(element)))
    .join('/')
  const canonical = [method, canonicalPath, canonicalQuery, canonicalHeaders, signedHeaders, payload].join('\n')
  const scope = `${day}/${region}/s3/aws4_request`
  const date = headers.get('x-amz-date') ?? ''
  const toSign = ['AWS4-HMAC-SHA256', date, scope, createHash('sha256').update(canonical).digest('hex')].join('\n')
  const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()
  const key = [day, region, 's3', 'aws4_request'].reduce<Buffer>(hmac, Buffer.from(`AWS4${secretAccessKey}`))
  return hmac(key, toSign).toString('hex')
}

/** RFC 3986: everything but letters, digits and `-._~`. */
const uriEncoded = (text: string): string =>
  [...Buffer.from(text)]
    .map((byte) => String.fromCharCode(byte))
    .map((one) =>
      /[A-Za-z0-9._~-]/.test(one) ? one : `%${one.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
    )
    .join('')

const dateOf = (stamp: string): number =>
  Date.parse(stamp.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'))
