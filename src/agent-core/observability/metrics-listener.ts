import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { constants, type FileHandle, open, writeFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import type { Logger } from './logger.ts'
import type { AddressAndPort } from '../util/address-and-port.ts'
import { type BoundedServerOptions, listenWithin, refuse } from '../util/bounded-server.ts'
import { messageOf } from '../util/message-of.ts'

export interface MetricsListenerOptions extends Pick<BoundedServerOptions, 'holders'> {
  /** Any of this machine, which others may reach. */
  readonly address: AddressAndPort
  readonly tokenFile: string
  readonly metrics: { render(): Promise<{ contentType: string; body: string }> }
  readonly log: Logger
}

/** The file with the token that Prometheus sends. A person may put another one in it at any time. */
export const metricsTokenIn = (stateDir: string): string => join(stateDir, 'metrics-token')

interface MetricsListener {
  /** Undefined where it does not listen; the agent works without it. */
  readonly port: number | undefined
  /** What to tell a person, where something is wrong. */
  readonly problem: string | undefined
  stop(): Promise<void>
}

/** `/metrics` and nothing else, for a Prometheus elsewhere that has the token, which is made where there is none. Never throws. */
export async function startMetricsListener(options: MetricsListenerOptions): Promise<MetricsListener> {
  const { address, tokenFile, log, holders } = options
  await makeToken(tokenFile)
  const reported = { problem: await tokenProblem(tokenFile) }
  const result = await listenWithin({
    ...address,
    holders,
    handle: (request, response) => answer(options, reported, request, response),
    onError: (error) => log.error('metrics request failed', { error }),
  })
  if (!result.ok) {
    const problem = `Prometheus gets no answer at --metrics-address: ${lowerFirst(result.message)}`
    return { port: undefined, problem, stop: () => Promise.resolve() }
  }
  const { server } = result
  return { port: server.port, problem: reported.problem, stop: () => server.close() }
}

async function answer(
  { tokenFile, metrics, log }: MetricsListenerOptions,
  reported: { problem: string | undefined },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if ((request.url ?? '').split('?', 1)[0] !== '/metrics') {
    refuse(response, 404, 'This server answers /metrics only.')
    return
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.setHeader('allow', 'GET, HEAD')
    refuse(response, 405, 'Only GET and HEAD are answered here.')
    return
  }
  const token = await readMetricsToken(tokenFile)
  const problem = token.ok ? undefined : problemText(tokenFile, token.why)
  // Once for each new reason: everybody on the network can ask.
  if (problem !== undefined && problem !== reported.problem) log.warn('no metrics token', { text: problem })
  reported.problem = problem
  const given = /^Bearer +([\x21-\x7e]{1,1024})$/i.exec(request.headers.authorization ?? '')?.[1]
  if (!token.ok || given === undefined || !isToken(given, token)) {
    response.setHeader('www-authenticate', 'Bearer')
    refuse(response, 401, 'This needs the token of --metrics-token-file.')
    return
  }
  const { contentType, body } = await metrics.render()
  response.writeHead(200, {
    'content-type': contentType,
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  })
  response.end(request.method === 'HEAD' ? undefined : body)
}

/** What is there stays. Why none can be made is told by {@link tokenProblem}. */
const makeToken = (file: string): Promise<void> =>
  writeFile(file, `${randomBytes(32).toString('hex')}\n`, { mode: 0o600, flag: 'wx' }).catch(() => undefined)

async function tokenProblem(file: string): Promise<string | undefined> {
  const token = await readMetricsToken(file)
  return token.ok ? undefined : problemText(file, token.why)
}

const problemText = (file: string, why: string): string =>
  `Every scrape at --metrics-address is refused until the token file ${file} can be used: ${why}.`

const lowerFirst = (sentence: string) => sentence.charAt(0).toLowerCase() + sentence.slice(1)

/** As read at this moment; `why` completes "The token file … cannot be used: …". */
type MetricsToken = { readonly ok: true; readonly digest: Buffer } | { readonly ok: false; readonly why: string }

/** The longest token, and some line breaks after it. */
const maxFileBytes = 1_100

/** Read at each request, which is a few system calls, so that a token that is replaced counts at once. Never rejects. */
export async function readMetricsToken(file: string): Promise<MetricsToken> {
  try {
    // O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
    await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK)
    return await tokenIn(handle)
  } catch (error) {
    return { ok: false, why: `${messageOf(error)}; create it with a token in it, or make it readable by this user` }
  }
}

/** Takes equally long whatever the two have in common. */
function isToken(given: string, { digest }: { readonly digest: Buffer }): boolean {
  return timingSafeEqual(digestOf(given), digest)
}

async function tokenIn(handle: FileHandle): Promise<MetricsToken> {
  const stat = await handle.stat()
  if (!stat.isFile()) return { ok: false, why: 'it is not a file; name a file with the token in it' }
  if (stat.uid !== process.getuid?.()) return { ok: false, why: 'it belongs to another user; make one that is yours' }
  if ((stat.mode & 0o077) !== 0) return { ok: false, why: 'other users may open it; run chmod 600 on it' }
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(maxFileBytes + 1), 0, maxFileBytes + 1, 0)
  const token = buffer.toString('latin1', 0, bytesRead).trimEnd()
  if (bytesRead > maxFileBytes || !/^[\x21-\x7e]{16,1024}$/.test(token)) {
    return {
      ok: false,
      why: 'a token has 16 to 1024 visible characters; make one with openssl rand -hex 32',
    }
  }
  return { ok: true, digest: digestOf(token) }
}

const digestOf = (secret: string): Buffer => createHash('sha256').update(secret, 'latin1').digest()
