import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import type { Behaviour, SeenRequest, ServerNews, ServerOrder } from './behaviour.ts'
import { Content } from './content.ts'

/** A server of model files in a process of its own, told over IPC what to do. Arguments: key and certificate (PEM) for https. */
const [keyFile, certificateFile] = process.argv.slice(2)

interface Route {
  readonly behaviour: Behaviour
  requests: number
  open: number
  statuses: number
  drops: number
  drips: number
}

type Seen = { -readonly [Field in keyof SeenRequest]: SeenRequest[Field] }

const routes = new Map<string, Route>()
const seen: Seen[] = []

process.on('message', (order: ServerOrder) => {
  if (order.kind === 'serve') {
    routes.set(order.path, { behaviour: order.behaviour, requests: 0, open: 0, statuses: 0, drops: 0, drips: 0 })
    tell({ kind: 'served' })
  } else tell({ kind: 'requests', requests: seen })
})
process.on('disconnect', () => process.exit(0))

const server =
  keyFile === undefined || certificateFile === undefined
    ? createServer(onRequest)
    : createTlsServer({ key: readFileSync(keyFile), cert: readFileSync(certificateFile) }, onRequest)
server.listen(0, '127.0.0.1', () => tell({ kind: 'listening', port: (server.address() as AddressInfo).port }))

function tell(news: ServerNews): void {
  process.send?.(news)
}

function onRequest(request: IncomingMessage, response: ServerResponse): void {
  const path = new URL(request.url ?? '/', 'http://unused').pathname
  const { authorization, range, host = '', 'if-range': ifRange } = request.headers
  const entry: Seen = {
    path,
    host,
    status: 404,
    sentBytes: 0,
    ...(authorization === undefined ? {} : { authorization }),
    ...(range === undefined ? {} : { range }),
    ...(typeof ifRange === 'string' ? { ifRange } : {}),
  }
  seen.push(entry)
  const route = routes.get(path)
  if (route === undefined) {
    response.writeHead(404).end()
    return
  }
  route.requests += 1
  route.open += 1
  response.on('close', () => {
    route.open -= 1
  })
  answer(route, request, response, entry).catch((error: unknown) => {
    if (!response.destroyed) response.destroy(error instanceof Error ? error : new Error(String(error)))
  })
}

async function answer(route: Route, request: IncomingMessage, response: ServerResponse, entry: Seen): Promise<void> {
  const { behaviour } = route
  const head = (status: number, headers: Record<string, string | number> = {}): ServerResponse => {
    entry.status = status
    return response.writeHead(status, headers)
  }
  const { status, redirect, later } = behaviour
  if (status !== undefined && route.statuses < status.times) {
    route.statuses += 1
    head(status.code, { ...status.headers }).end('no')
    return
  }
  if (behaviour.authorization !== undefined && request.headers.authorization !== behaviour.authorization) {
    head(401).end()
    return
  }
  if (behaviour.maxConnections !== undefined && route.open > behaviour.maxConnections) {
    head(429).end()
    return
  }
  if (redirect !== undefined) {
    head(302, { location: redirect }).end()
    return
  }
  if (behaviour.html === true) {
    head(200, { 'content-type': 'text/html' }).end('<!doctype html>\n<title>Log in</title>')
    return
  }
  const changed = later !== undefined && route.requests > later.afterRequests
  const content = new Content(changed ? later.seed : behaviour.seed, behaviour.sizeBytes)
  const etag = changed ? later.etag : behaviour.etag
  const headers: Record<string, string | number> = {
    'content-type': 'application/octet-stream',
    ...(etag === undefined ? {} : { etag }),
    ...(behaviour.lastModified === undefined ? {} : { 'last-modified': behaviour.lastModified }),
    ...(behaviour.date === undefined ? {} : { date: behaviour.date }),
  }
  if (behaviour.encoding !== undefined) {
    const all = Buffer.concat([...content.pieces(0, content.sizeBytes)])
    const packed = behaviour.encoding === 'gzip' ? gzipSync(all) : all
    head(200, { ...headers, 'content-encoding': behaviour.encoding, 'content-length': packed.length }).end(packed)
    return
  }
  const asked = behaviour.ranges === false ? undefined : rangeOf(request, etag, behaviour.lastModified)
  if (asked !== undefined && behaviour.rangeStatus !== undefined) {
    head(behaviour.rangeStatus).end()
    return
  }
  if (asked !== undefined && asked.start >= content.sizeBytes) {
    head(416, { 'content-range': `bytes */${content.sizeBytes}` }).end()
    return
  }
  const start = asked?.start ?? 0
  const end = Math.min(content.sizeBytes, asked?.end ?? Infinity)
  if (asked !== undefined) headers['content-range'] = `bytes ${start}-${end - 1}/${content.sizeBytes}`
  if (behaviour.chunked !== true) headers['content-length'] = behaviour.declaredBytes ?? end - start
  head(asked === undefined ? 200 : 206, headers)
  await send(route, content, [start, end], response, entry)
}

async function send(
  route: Route,
  content: Content,
  [start, end]: [number, number],
  response: ServerResponse,
  entry: Seen,
): Promise<void> {
  const { drop, drip, declaredBytes, bytesPerSecond = Infinity } = route.behaviour
  const startedAt = performance.now()
  const drops = drop !== undefined && route.drops < drop.times
  const drips = drip !== undefined && route.drips < drip.times
  if (drops) route.drops += 1
  if (drips) route.drips += 1
  const cut = Math.min(end, start + (drops ? drop.afterBytes : drips ? drip.afterBytes : Infinity))
  for (const piece of content.pieces(start, cut)) {
    if (response.destroyed) return
    entry.sentBytes += piece.length
    if (!response.write(piece)) await drained(response)
    const aheadMs = startedAt + (entry.sentBytes * 1000) / bytesPerSecond - performance.now()
    if (aheadMs > 1) await delay(aheadMs)
  }
  if (drips) {
    for (let at = cut; at < end && !response.destroyed; at += 1) {
      response.write(content.piece(at, at + 1))
      await delay(drip.everyMs)
    }
  }
  if (drops || (declaredBytes !== undefined && declaredBytes > end - start)) {
    await new Promise((resolve) => response.write('', resolve))
    response.socket?.destroySoon()
  } else response.end()
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done)
      response.off('close', done)
      resolve()
    }
    response.once('drain', done)
    response.once('close', done)
  })
}

/** Undefined where the whole file is to be sent. */
function rangeOf(
  request: IncomingMessage,
  etag: string | undefined,
  lastModified: string | undefined,
): { start: number; end: number } | undefined {
  const match = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '')
  if (match === null) return undefined
  const condition = request.headers['if-range']
  if (condition !== undefined && condition !== etag && condition !== lastModified) return undefined
  return { start: Number(match[1]), end: match[2] === '' ? Infinity : Number(match[2]) + 1 }
}
