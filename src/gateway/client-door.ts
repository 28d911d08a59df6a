import type { IncomingMessage, ServerResponse } from 'node:http'
import type { GatewayRoute } from '../contract/gateway.ts'
import { Door, hostOf, isOfPage, type Asked } from './door.ts'
import { HeldPieces } from './held-pieces.ts'
import { JsonBody } from './json-body.ts'
import { forward, nextPiece } from './forward.ts'
import { isAllowed, modelInPath, serviceAsModelIn, targetOf } from './paths.ts'
import { Refusal } from './refusal.ts'
import { forbiddenPath, isServing, notServing, RouteTable, serviceOf, whyNot } from './routing.ts'

/**
 * The client proxy: one address on 127.0.0.1 for every model that serves on this machine. It goes to whoever the request names, and passes on
 * what the runtime's list of paths allows. It takes connections that come at the address, and does not listen itself.
 */
export class ClientDoor extends Door {
  protected readonly name = 'clientProxy'
  #table = new RouteTable([])
  /** Names in `Host` that a person allowed besides this machine's own, at any port. */
  hosts: readonly string[] = []

  set routes(routes: readonly GatewayRoute[]) {
    this.#table = new RouteTable(routes)
  }

  protected async serve(request: IncomingMessage, response: ServerResponse, asked: Asked): Promise<void> {
    requireOwnHost(request, this.hosts)
    requireNoForeignPage(request)
    this.requireRoom(request)
    const { method = '', url = '' } = request
    const table = this.#table
    const target = targetOf(url)
    const own = method === 'GET' ? ownAnswer(table, url, target?.path, request.headers.accept) : undefined
    if (own) {
      response.writeHead(200, own.headers).end(own.body)
      return
    }
    if (!target) throw forbiddenPath(url)
    const direction = table.directionOf(target)
    using read = new HeldPieces()
    const route = direction.kind === 'service' ? direction.route : table.routeOf(await modelOf(request, read))
    const exchange = this.begin(asked, route)
    if (!isAllowed(route.runtime, method, direction.target.path)) throw forbiddenPath(`${method} ${target.path}`)
    const title = table.idOf(route)
    if (route.port === undefined) throw notServing(route, title)
    const { host, port, runtime, names, engineKey } = route
    const engine = { host, port, title, runtime, model: names[0], engineKey }
    const of = { service: serviceOf(route), inFlight: this.inFlight, exchange }
    await forward({ ...of, request, response, read, engine, target: direction.target })
  }
}

/** What can be said without an engine. */
function ownAnswer(
  table: RouteTable,
  url: string,
  path = '',
  accept = '',
): { headers: Record<string, string>; body: string } | undefined {
  const modelOf = (route: GatewayRoute) => ({
    ...{ id: table.idOf(route), object: 'model', created: startedAt, owned_by: 'metalbar' },
  })
  if (path === '/v1/models') return json({ object: 'list', data: table.serving.map(modelOf) })
  const id = serviceAsModelIn(url) ?? modelInPath(path)
  if (id !== undefined) {
    const route = table.routeOf(id)
    if (!isServing(route)) throw notServing(route, table.idOf(route))
    return json(modelOf(route))
  }
  if (path !== '/') return undefined
  if (accept.includes('text/html')) return { headers: pageHeaders, body: page(table) }
  const services = table.all.map((route) => ({
    id: table.idOf(route),
    service: serviceOf(route),
    path: pathOf(route),
    serves: isServing(route),
    ...(!isServing(route) && { message: whyNot(route) }),
  }))
  return json({ what: `${about} ${howToAsk}`, models: '/v1/models', services })
}

const startedAt = Math.floor(Date.now() / 1_000)

const about = 'The client proxy of Metalbar: every model that serves on this machine, for its own programs.'
const howToAsk =
  'Send OpenAI requests to /v1 and name the model, or put a service before the path as /NAMESPACE/NAME/v1/chat/completions.'

const json = (value: unknown) => ({
  headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
  body: `${JSON.stringify(value)}\n`,
})

const pageHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
}

function page(table: RouteTable): string {
  const items = table.all.map((route) => {
    const state = isServing(route) ? 'serves' : whyNot(route)
    return `<li><b>${escaped(table.idOf(route))}</b>: ${escaped(state)} (<code>${escaped(pathOf(route))}</code>)</li>`
  })
  const list = items.length === 0 ? '<p>No model is serving at the moment.</p>' : `<ul>${items.join('')}</ul>`
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>Metalbar</title><h1>Metalbar</h1><p>${about}</p><p>${howToAsk}</p>${list}</html>\n`
}

const pathOf = (route: GatewayRoute): string => `/${serviceOf(route)}/v1`

const escaped = (text: string): string => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`)

/** As `Host` names this very door; a name of a stranger's DNS that points here is none of ours. */
function requireOwnHost(request: IncomingMessage, allowed: readonly string[]): void {
  const { localPort: port } = request.socket
  const host = hostOf(request)
  if (host && ['127.0.0.1', 'localhost', '[::1]'].includes(host.name) && host.port === port) return
  if (host && allowed.includes(host.name)) return
  const message = `This server answers to 127.0.0.1:${port}, localhost:${port} and [::1]:${port} only. For a container of this machine that asks by another name, start the agent with --client-hosts and that name, such as host.docker.internal.`
  throw new Refusal('bad_host', 421, 'bad_host', message)
}

/** A page that a person visits could otherwise have models work for it, and llama-server lets every page read the answer. */
function requireNoForeignPage(request: IncomingMessage): void {
  const { origin, 'sec-fetch-site': site } = request.headers
  const isPage = origin === undefined ? site === 'cross-site' : isOfPage(request)
  const isOfThisMachine = /^https?:\/\/(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?$/i.test(origin ?? '')
  if (!isPage || isOfThisMachine) return
  throw new Refusal('4xx', 403, 'foreign_page', 'Web pages of other machines may not use the models of this one.')
}

/** What came of the body while its model was looked for is held in `read`. Throws Refusal. */
async function modelOf(request: IncomingMessage, read: HeldPieces): Promise<string | undefined> {
  const body = new JsonBody()
  while (body.model === undefined) {
    const piece = await nextPiece(request)
    if (!piece) break
    read.add(piece)
    body.push(piece)
  }
  return body.model
}
