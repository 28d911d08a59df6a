import { basename } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { maxRoutes, type GatewayRoute, type RelayAccess } from '../../contract/gateway.ts'
import { sentence } from '../../contract/clean-text.ts'
import { askedAt, loopback } from '../servers/listening.ts'
import { isOver, type ServerState } from '../servers/server-state.ts'
import type { Servers } from '../servers/servers.ts'
import { refKey, splitKey } from '../util/object-key.ts'

const maxNameLength = 1_024
const maxMessageLength = 1_000

/** A service with its sentence for people and the names of its model. */
export interface KnownService {
  readonly key: string
  readonly message: string
  readonly names: readonly string[]
  /** When its object was created, in RFC 3339; absent = before any that is known. */
  readonly createdAt?: string | undefined
}

type Published = NonNullable<GatewayRoute['published']>

export interface RoutesOptions {
  readonly servers: Pick<Servers, 'state' | 'get' | 'factsOf' | 'commandOf' | 'runtimeOf' | 'apiKeyOf'>
  /** The published address and how the service is reached there, as far as they are known; undefined where there is no such address. */
  readonly published: (key: string) => Omit<Published, 'engine'> | undefined
  /** How relays reach the service; undefined where they do not. */
  readonly relayed?: (key: string) => RelayAccess['is'] | undefined
}

/** Where requests for each service go that serves, and why for each that does not. */
export class Routes {
  readonly #options: RoutesOptions
  /** Each route beside what it was made of: cleaning a thousand sentences again for each change would hold up requests. */
  #waiting = new Map<string, { readonly known: KnownService; readonly route: GatewayRoute }>()
  /** When the load of each service that loads began, and how long the last load took of each that was seen to load. */
  readonly #loadingSince = new Map<string, number>()
  readonly #loadedInMs = new Map<string, number>()

  constructor(options: RoutesOptions) {
    this.#options = options
  }

  /**
   * The oldest first, to whose namespace a name belongs; where there are too many, those that wait are left out. What has not changed since it was
   * last asked is the same object.
   */
  now(services: readonly KnownService[]): GatewayRoute[] {
    const { servers } = this.#options
    const serving = new Map<string, GatewayRoute>()
    const known = new Map(services.map((service) => [service.key, service]))
    for (const [key, state] of servers.state()) {
      this.#noteLoad(key, state)
      const port = portOf(state)
      const engine = servers.factsOf(key)?.engine
      const names = engine
        ? namesFrom([engine.model, ...(known.get(key)?.names ?? [])])
        : namesOf(servers.commandOf(key) ?? [])
      if (port !== undefined)
        serving.set(key, {
          ...routeOf(key, names, servers.runtimeOf(key)),
          ...this.#engine(key, port),
          ...this.#doorsOf(key, isHealthy(state)),
        })
      else if (!known.has(key) && (state.kind !== 'exited' || state.cause !== 'stopped'))
        known.set(key, { key, names, message: 'its server does not serve yet.' })
    }
    const waiting = [...known.values()].filter(({ key }) => !serving.has(key)).map((service) => this.#wait(service))
    this.#waiting = new Map(waiting.map((one) => [one.known.key, one]))
    for (const key of this.#loadedInMs.keys()) if (!serving.has(key) && !known.has(key)) this.#loadedInMs.delete(key)
    const createdAt = (route: GatewayRoute): string => known.get(refKey(route))?.createdAt ?? ''
    const routes = [...serving.values(), ...waiting.map(({ route }) => route)].slice(0, maxRoutes)
    return routes.toSorted((one, other) => compare(createdAt(one), createdAt(other)))
  }

  #noteLoad(key: string, state: ServerState): void {
    const since = this.#loadingSince.get(key)
    if (isLoading(state)) this.#loadingSince.set(key, since ?? state.since)
    else this.#loadingSince.delete(key)
    if (state.kind === 'ready' && since !== undefined) this.#loadedInMs.set(key, state.readySince - since)
  }

  #engine(key: string, port: number): Pick<GatewayRoute, 'host' | 'port' | 'engineKey'> {
    const { servers } = this.#options
    const daemon = servers.factsOf(key)?.engine
    if (daemon) {
      return { port: daemon.port, ...(daemon.host !== loopback && { host: daemon.host }), ...this.#key(key) }
    }
    const host = askedAt(servers.factsOf(key)?.host ?? loopback)
    return { port, ...(host !== loopback && { host }) }
  }

  #doorsOf(key: string, healthy: boolean): Pick<GatewayRoute, 'published' | 'relay' | 'cut'> {
    const cut = this.#cut(key)
    const is = this.#options.relayed?.(key)
    return {
      ...this.#published(key, is),
      ...(is && { relay: { is, isHealthy: healthy } }),
      ...(cut.length > 0 && { cut }),
    }
  }

  #cut(key: string): string[] {
    const { servers } = this.#options
    const state = servers.get(key)
    const model = servers.factsOf(key)?.engine?.model
    return model !== undefined && state?.kind === 'stopping' && state.isCut === true ? [model] : []
  }

  /** Where the gateway listens for the service, if only this machine reaches its engine. Relays need its API key in any case. */
  #published(key: string, relayed: RelayAccess['is'] | undefined): Pick<GatewayRoute, 'published'> {
    const { servers, published } = this.#options
    const port = engineOf(servers.get(key))
    const daemon = servers.factsOf(key)?.engine
    const at = daemon && { at: daemon.port, model: daemon.model, ...this.#key(key) }
    const isLocal = port !== undefined && servers.factsOf(key)?.host === loopback
    const engine = isLocal ? { port, runtime: servers.runtimeOf(key), ...at } : undefined
    const isRelayed = relayed === 'beside' || relayed === 'alone'
    const where = engine || isRelayed ? published(key) : undefined
    return where ? { published: { ...where, ...(engine && { engine }) } } : {}
  }

  #key(key: string): Pick<GatewayRoute, 'engineKey'> {
    const engineKey = this.#options.servers.apiKeyOf(key)
    return engineKey === undefined ? {} : { engineKey }
  }

  #wait(known: KnownService): { readonly known: KnownService; readonly route: GatewayRoute } {
    const before = this.#waiting.get(known.key)
    const doors = this.#doorsOf(known.key, false)
    const isSameWait = before?.known.message === known.message && isDeepStrictEqual(before.known.names, known.names)
    const state = this.#options.servers.get(known.key)
    const tookMs = this.#loadedInMs.get(known.key) ?? unmeasuredMs
    const retryAfterS = state && isLoading(state) ? Math.min(3_600, Math.max(1, Math.ceil(tookMs / 1_000))) : undefined
    const { published, relay, cut, retryAfterS: told } = before?.route ?? {}
    const isSame = isDeepStrictEqual(
      [published, relay, cut, told],
      [doors.published, doors.relay, doors.cut, retryAfterS],
    )
    if (isSameWait && isSame) return before
    const message = sentence(known.message, maxMessageLength)
    return {
      known,
      route: {
        ...routeOf(known.key, namesFrom(known.names)),
        message,
        ...(retryAfterS !== undefined && { retryAfterS }),
        ...doors,
      },
    }
  }
}

const compare = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0)

const routeOf = (key: string, names: string[], runtime = 'llama-server'): GatewayRoute => ({
  ...splitKey(key),
  runtime,
  names,
})

/** At most so many reasons are sent at once, so that the gateway answers requests in between. */
const mostReasons = 100

/** The changes to send to a gateway that knows `told`; `isAll` if nothing remains to be sent after them. */
export function changesSince(
  told: ReadonlyMap<string, GatewayRoute>,
  now: readonly GatewayRoute[],
): { readonly routes: GatewayRoute[]; readonly gone: string[]; readonly isAll: boolean } {
  const changed = now.filter((route) => !isSame(told.get(refKey(route)), route))
  const isUrgent = (route: GatewayRoute): boolean =>
    [route, told.get(refKey(route))].some((one) => one?.port ?? one?.published ?? one?.cut)
  const reasons = changed.filter((route) => !isUrgent(route))
  const present = new Set(now.map(refKey))
  return {
    routes: [...changed.filter(isUrgent), ...reasons.slice(0, mostReasons)],
    gone: [...told.keys()].filter((key) => !present.has(key)),
    isAll: reasons.length <= mostReasons,
  }
}

const isSame = (before: GatewayRoute | undefined, after: GatewayRoute): boolean =>
  before === after || isDeepStrictEqual(before, after)

/** The load time that a client is told before one was measured for its service: about that of a small model. */
const unmeasuredMs = 5_000

const isLoading = ({ kind }: ServerState): boolean => kind === 'starting' || kind === 'loading'

/** Whether a server that has a port is believed to answer. */
const isHealthy = (state: ServerState): boolean => state.kind !== 'ready' || state.healthy

/** The port of an engine that runs. */
const engineOf = (state: ServerState | undefined): number | undefined =>
  state && !isOver(state) && state.kind !== 'exited' && 'port' in state ? state.port : undefined

/** A server that an earlier agent left serves on before it is asked for the first time. One that does not answer may yet answer this one. */
function portOf(state: ServerState): number | undefined {
  if (state.kind === 'ready') return state.port
  return state.kind === 'starting' && state.unasked ? state.port : undefined
}

/** Its alias first, which vLLM takes and no other, then the file of its model. */
function namesOf(command: readonly string[]): string[] {
  const aliases = valuesOf(command, '--alias', '-a', '--served-model-name', '--name').flatMap((text) => text.split(','))
  const files = valuesOf(command, '--model', '-m').map((file) => basename(file))
  return namesFrom([...aliases, ...files])
}

/** A file is called with its ending and without. */
function namesFrom(names: readonly string[]): string[] {
  const all = [...names, ...names.map((name) => name.replace(/\.gguf$/i, ''))]
  return [...new Set(all)].filter((name) => name !== '' && name.length <= maxNameLength).slice(0, 20)
}

const valuesOf = (command: readonly string[], ...flags: readonly string[]): string[] =>
  command.flatMap((word, index) => {
    const [flag = '', ...value] = word.split('=')
    if (!flags.includes(flag)) return []
    return value.length > 0 ? [value.join('=')] : [command[index + 1] ?? '']
  })
