import type { Socket } from 'node:net'
import { createServer as createHttpServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { authenticate, authorize, reviewAccess, type User } from './access.ts'
import { discoveryDocument } from './discovery.ts'
import { type Fault, type Faults, isMatch, isWatchFault, type RequestMatch, type SeenRequest } from './faults.ts'
import { childOf, textOf, type Json, type KubeObject } from './json.ts'
import { listPage, scopeOf } from './lists.ts'
import type { Operations } from './operations.ts'
import { resetConnection, sendReply, type Reply } from './replies.ts'
import type { RequestLog } from './requests.ts'
import { attemptOf, failure, patchType, readBody, seenRequest, statusFault, writeOptions } from './request-reading.ts'
import { routeOf, type Route } from './routes.ts'
import { StatusError } from './status-error.ts'
import type { Store } from './store.ts'
import type { Identity } from './tls.ts'
import { Watch } from './watch.ts'

export interface ApiServerParts {
  readonly store: Store
  readonly operations: Operations
  readonly faults: Faults
  readonly requests: RequestLog
  readonly users: () => readonly User[]
  readonly now: () => number
  readonly bookmarkEveryMs: number
  /** Absent = plain HTTP. */
  readonly identity: Identity | undefined
}

type ResourceRoute = Extract<Route, { type: 'resource' }>

interface Incoming {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly url: URL
  readonly fault: Fault | undefined
}

/** As long as the real server keeps what is idle. */
const keepAliveMs = 90_000

/** The HTTP side: addresses, verbs, rights, faults; what the requests mean is the business of `Operations`. */
export class ApiServer {
  readonly #parts: ApiServerParts
  readonly #watches = new Map<Watch, SeenRequest>()
  /** Also those whose TLS handshake is under way, of which the HTTP server does not know yet. */
  readonly #sockets = new Set<Socket>()
  #server: Server | undefined

  constructor(parts: ApiServerParts) {
    this.#parts = parts
  }

  /** Listens on loopback; 0 = any free port. */
  async listen(port: number): Promise<number> {
    const { identity } = this.#parts
    const handle = (request: IncomingMessage, response: ServerResponse) => void this.#handle(request, response)
    const server = identity
      ? createHttpsServer({ key: identity.key, cert: identity.certificate }, handle)
      : createHttpServer(handle)
    server.keepAliveTimeout = keepAliveMs
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
    })
    this.#server = server
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, '127.0.0.1', resolve)
    })
    const address = server.address()
    return isListening(address) ? address.port : port
  }

  /** Connections in use are cut, as when a machine goes. */
  async close(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    if (!server) return
    for (const watch of this.#watches.keys()) watch.stop()
    this.#watches.clear()
    const closed = new Promise((resolve) => server.close(resolve))
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  watches(on: RequestMatch = {}): Watch[] {
    return [...this.#watches].filter(([, seen]) => isMatch(on, seen)).map(([watch]) => watch)
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://kube-sim')
    const route = routeOf(request.method ?? 'GET', url, this.#parts.operations)
    let fault: Fault | undefined
    try {
      response.setHeader('date', new Date(this.#parts.now()).toUTCString())
      const user = this.#userOf(request, route, url)
      const seen = seenRequest(route, url, user)
      this.#parts.requests.record(seen)
      fault = this.#parts.faults.take(seen)
      if (fault?.kind === 'stall') return
      if (fault?.kind === 'reset') {
        resetConnection(response)
        return
      }
      if (fault?.kind === 'status') throw statusFault(fault)
      if (route.type !== 'other') authorize(user, attemptOf(route))
      await this.#answer(route, user, seen, { request, response, url, fault })
    } catch (error) {
      if (response.headersSent || response.destroyed) return
      sendReply(response, failure(error), fault && !isWatchFault(fault) ? fault : undefined)
    }
  }

  #userOf(request: IncomingMessage, route: Route, url: URL): User {
    try {
      return authenticate(request.headers.authorization, this.#parts.users())
    } catch (error) {
      this.#parts.requests.record(seenRequest(route, url, { name: '', token: '', rules: [] }))
      throw error
    }
  }

  async #answer(route: Route, user: User, seen: SeenRequest, incoming: Incoming): Promise<void> {
    const { response, fault, url } = incoming
    if (fault?.kind === 'endless-list') url.searchParams.delete('continue')
    if (route.type === 'resource' && route.verb === 'watch') {
      this.#watch(route, seen, incoming)
      return
    }
    const body = await readBody(incoming.request)
    const reply = route.type === 'resource' ? this.#perform(route, body, incoming) : this.#other(route, user, url, body)
    if (fault?.kind === 'reset-after') resetConnection(response)
    else sendReply(response, reply, fault && !isWatchFault(fault) ? fault : undefined)
  }

  #perform(route: ResourceRoute, body: Json | undefined, { request, url }: Incoming): Reply {
    const { operations, store } = this.#parts
    const { kind, verb, name, subresource } = route
    const target = { kind, namespace: route.namespace ?? '', name }
    const options = writeOptions(request, url, subresource)
    const headers = kind.warning === undefined ? {} : { warning: `299 - ${JSON.stringify(kind.warning)}` }
    switch (verb) {
      case 'get':
        return { code: 200, body: operations.get(target), headers }
      case 'list':
        return {
          code: 200,
          body: listPage(store, scopeOf(kind, route.namespace, url.searchParams), url.searchParams),
          headers,
        }
      case 'create':
        return { code: 201, body: operations.create(target, body ?? null, options), headers }
      case 'update': {
        const { object, isNew } = operations.update(target, body ?? null, options)
        return { code: isNew ? 201 : 200, body: object, headers }
      }
      case 'patch': {
        const type = patchType(request.headers['content-type'] ?? '')
        const { object, isNew } = operations.patch(target, type, body ?? null, options)
        return { code: isNew ? 201 : 200, body: object, headers }
      }
      case 'delete': {
        const asked = childOf(body, 'preconditions')
        const preconditions = { uid: textOf(asked, 'uid'), resourceVersion: textOf(asked, 'resourceVersion') }
        return { code: 200, body: operations.delete(target, preconditions, options), headers }
      }
      case 'deletecollection': {
        const { selects } = scopeOf(kind, route.namespace, url.searchParams)
        const doomed = store.list(kind, route.namespace).filter(selects)
        for (const { metadata } of doomed) {
          operations.delete({ kind, namespace: metadata.namespace ?? '', name: metadata.name }, {}, options)
        }
        return { code: 200, body: { kind: `${kind.kind}List`, apiVersion: 'v1', metadata: {}, items: doomed }, headers }
      }
      default:
        throw new StatusError(
          405,
          'MethodNotAllowed',
          'the server does not allow this method on the requested resource',
        )
    }
  }

  #other(route: Exclude<Route, ResourceRoute>, user: User, url: URL, body: Json | undefined): Reply {
    const { pathname } = url
    if (route.type === 'other') {
      if (['/readyz', '/healthz', '/livez'].includes(pathname)) return { code: 200, body: 'ok' }
      if (pathname === '/version') return { code: 200, body: version }
      if (pathname === '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews') {
        return { code: 201, body: reviewAccess(user, body ?? null) }
      }
      const document = discoveryDocument(pathname, this.#parts.operations.kinds())
      if (document) return { code: 200, body: document }
    }
    return { code: 404, body: '404 page not found\n' }
  }

  #watch(route: ResourceRoute, seen: SeenRequest, { response, url, fault }: Incoming): void {
    const { store, bookmarkEveryMs } = this.#parts
    const scope = scopeOf(route.kind, route.namespace, url.searchParams)
    const named =
      route.name === '' ? scope : { ...scope, selects: (object: KubeObject) => object.metadata.name === route.name }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.flushHeaders()
    const watch = new Watch({
      store,
      scope: named,
      query: url.searchParams,
      bookmarkEveryMs,
      fault: fault && isWatchFault(fault) ? fault : undefined,
      sink: {
        write: (line) => response.write(line),
        end: () => response.end(),
        reset: () => {
          resetConnection(response)
        },
      },
    })
    this.#watches.set(watch, seen)
    response.once('close', () => {
      watch.stop()
      this.#watches.delete(watch)
    })
  }
}

const version = { major: '1', minor: '36', gitVersion: 'v1.36.3-kube-sim', platform: 'node' }

const isListening = (address: ReturnType<Server['address']>): address is Exclude<typeof address, string | null> =>
  typeof address === 'object' && address !== null
