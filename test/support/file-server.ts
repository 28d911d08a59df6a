import { open, readFile } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pipeline } from 'node:stream/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'

type FileContent = Buffer | { file: string }

/** What a server does instead of sending the file as it should. */
type Fault =
  /** Closes the connection after so many bytes of the body. */
  | { kind: 'drop'; afterBytes: number }
  /** Sends so many bytes and then nothing, with the connection open. */
  | { kind: 'stall'; afterBytes: number }
  /** Says another length than it sends, and closes the connection after the content. */
  | { kind: 'wrong-length'; declaredBytes: number }
  /** Sends the content in chunks, without saying its length. */
  | { kind: 'no-length' }
  /** Compresses although the request did not ask for it. */
  | { kind: 'gzip' }
  /** Status 200 and a page, as login walls and file viewers do. */
  | { kind: 'html' }
  | { kind: 'status'; status: number; headers?: Record<string, string>; body?: string }
  | { kind: 'redirect'; location: string }

export interface ServeOptions {
  fault?: Fault
  /** Bytes per second of each response. */
  throttle?: number
  /** The body flows only as far as the test allows with `allow`. */
  paced?: boolean
  contentType?: string
  /** What answers to each method call the content. */
  etag?: (method: string) => string
}

interface SeenRequest {
  method: string
  /** With its query. */
  path: string
  headers: IncomingHttpHeaders
}

/** A file on the server. Serving the same path again replaces it. */
export interface ServedFile {
  readonly url: string
  readonly requests: readonly SeenRequest[]
  /** Responses that are not finished and whose client is still there. */
  readonly openResponses: number
  /** Lets each paced response send so many bytes more than allowed so far. */
  allow(bytes: number): void
}

export interface FileServer extends AsyncDisposable {
  /** `http://127.0.0.1:<port>` */
  readonly origin: string
  /** Every request, also those for paths that are not served (404). */
  readonly requests: readonly SeenRequest[]
  serve(path: string, content: FileContent, options?: ServeOptions): ServedFile
}

/** An HTTP server for model files, on a real socket, with faults on demand. */
export async function startFileServer({ host = '127.0.0.1' }: { host?: string } = {}): Promise<FileServer> {
  const routes = new Map<string, Route>()
  const requests: SeenRequest[] = []
  const server = createServer((request, response) => {
    const { method = '', url = '', headers } = request
    const seen = { method, path: url, headers }
    requests.push(seen)
    const route = routes.get(new URL(url, 'http://unused').pathname)
    if (route === undefined) response.writeHead(404).end()
    else route.answer(request, response, seen)
  })
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  const { port } = server.address() as AddressInfo // a TCP server that listens has no other kind
  const origin = `http://${host.includes(':') ? `[${host}]` : host}:${port}`
  return {
    origin,
    requests,
    serve: (path, content, options = {}) => {
      const route = new Route(origin + path, content, options)
      routes.set(new URL(path, origin).pathname, route)
      return route
    },
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
}

class Route implements ServedFile {
  readonly url: string
  readonly requests: SeenRequest[] = []
  openResponses = 0
  readonly #content: FileContent
  readonly #options: ServeOptions
  #allowed = 0
  #grown = Promise.withResolvers<undefined>()

  constructor(url: string, content: FileContent, options: ServeOptions) {
    this.url = url
    this.#content = content
    this.#options = options
  }

  allow(bytes: number): void {
    this.#allowed += bytes
    this.#grown.resolve(undefined)
    this.#grown = Promise.withResolvers()
  }

  answer(request: IncomingMessage, response: ServerResponse, seen: SeenRequest): void {
    this.requests.push(seen)
    this.openResponses += 1
    const gone = new AbortController()
    response.on('close', () => {
      this.openResponses -= 1
      gone.abort()
    })
    this.#respond(request, response, gone.signal).catch((error: unknown) => {
      if (!gone.signal.aborted) response.destroy(error instanceof Error ? error : new Error(String(error)))
    })
  }

  async #respond(request: IncomingMessage, response: ServerResponse, gone: AbortSignal): Promise<void> {
    const { fault, contentType = 'application/octet-stream', etag } = this.#options
    const sizeBytes = await contentSize(this.#content)
    const headers: Record<string, string | number> = { 'content-type': contentType, 'content-length': sizeBytes }
    if (etag !== undefined) headers['etag'] = etag(request.method ?? '')
    switch (fault?.kind) {
      case 'status':
        response.writeHead(fault.status, fault.headers).end(fault.body)
        return
      case 'redirect':
        response.writeHead(302, { location: fault.location }).end()
        return
      case 'html':
        response
          .writeHead(200, { 'content-type': 'text/html; charset=utf-8' })
          .end('<!doctype html>\n<html><body>Log in</body></html>')
        return
      case 'gzip': {
        const packed = gzipSync(await readAll(this.#content))
        response.writeHead(200, { ...headers, 'content-encoding': 'gzip', 'content-length': packed.length }).end(packed)
        return
      }
      case 'no-length':
        delete headers['content-length']
        break
      case 'wrong-length':
        headers['content-length'] = fault.declaredBytes
        break
      case 'drop':
      case 'stall':
      case undefined:
    }
    response.writeHead(200, headers)
    if (request.method === 'HEAD') {
      response.end()
      return
    }
    response.flushHeaders()
    const cut = fault?.kind === 'drop' || fault?.kind === 'stall' ? fault.afterBytes : sizeBytes
    await pipeline(this.#body(cut, gone), response, { end: false })
    if (fault?.kind === 'drop' || fault?.kind === 'wrong-length') response.socket?.destroySoon()
    else if (fault?.kind !== 'stall') response.end()
  }

  /** The first `cut` bytes, at the pace that was asked for. */
  async *#body(cut: number, gone: AbortSignal): AsyncGenerator<Buffer> {
    const { paced = false, throttle } = this.#options
    const startedAt = performance.now()
    const left = once(gone)
    let sent = 0
    for await (const chunk of chunksOf(this.#content, throttle)) {
      for (let rest = chunk.subarray(0, cut - sent); rest.length > 0;) {
        while (paced && this.#allowed <= sent) await Promise.race([this.#grown.promise, left])
        const piece = paced ? rest.subarray(0, this.#allowed - sent) : rest
        sent += piece.length
        rest = rest.subarray(piece.length)
        yield piece
        if (throttle !== undefined) {
          const dueMs = startedAt + (sent * 1000) / throttle - performance.now()
          if (dueMs > 1) await delay(dueMs, undefined, { signal: gone })
        }
      }
      if (sent >= cut) return
    }
  }
}

/** Rejects once the client is gone. */
function once(gone: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>()
  gone.addEventListener('abort', () => reject(new Error('the client is gone')), { once: true })
  promise.catch(() => undefined)
  return promise
}

async function* chunksOf(content: FileContent, throttle: number | undefined): AsyncGenerator<Buffer> {
  const size = throttle === undefined ? 64 * 1024 : Math.max(1, Math.min(64 * 1024, Math.floor(throttle / 20)))
  if (Buffer.isBuffer(content)) {
    for (let at = 0; at < content.length; at += size) yield content.subarray(at, at + size)
    return
  }
  const handle = await open(content.file)
  for await (const chunk of handle.createReadStream({ highWaterMark: size })) yield chunk as Buffer // no encoding: Buffers
}

async function contentSize(content: FileContent): Promise<number> {
  if (Buffer.isBuffer(content)) return content.length
  const handle = await open(content.file)
  try {
    return (await handle.stat()).size
  } finally {
    await handle.close()
  }
}

async function readAll(content: FileContent): Promise<Buffer> {
  return Buffer.isBuffer(content) ? content : readFile(content.file)
}
