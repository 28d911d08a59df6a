import type { ListenObstacle, Observation, Unreached } from './plan/observation.ts'
import type { ServiceRooms } from './service-rooms.ts'
import { apiKeyAnnotation } from '../gateway/api-keys.ts'
import { runtimes } from '../runtimes/runtimes.ts'
import { isEveryAddress, loopback, takesAt } from '../servers/listening.ts'
import type { ServerRuntime } from '../servers/probe.ts'

/** A setting may change, or the machine get its address: neither brings the service back into the queue. */
const lookAgainMs = 5_000

export interface ReachInputs {
  readonly key: string
  readonly address: Observation['address']
  /** The Secret that its annotation names. */
  readonly apiKeySecret: string | undefined
  /** The runtime of a server that is started now. */
  readonly runtime: ServerRuntime | undefined
  readonly rooms: Pick<ServiceRooms, 'apiKeys' | 'door' | 'ingress' | 'settings'> & {
    readonly publisher: Pick<ServiceRooms['publisher'], 'wayFor'>
  }
}

/** Why requests to the published address do not reach the server that listens there; undefined where they do. */
export function unreached(
  { host, port }: { readonly host: string; readonly port: number },
  { key, address: { ip, warning }, apiKeySecret, runtime, rooms }: ReachInputs,
): Unreached | undefined {
  if (host !== loopback && apiKeySecret !== undefined)
    return { kind: 'exposed', reason: 'NoApiKey', message: openToAll }
  const isRelayed = rooms.publisher.wayFor(key) === 'relay'
  if (host !== loopback && !isRelayed) {
    if (ip === undefined || takesAt(host, ip)) return undefined
    const message = isEveryAddress(host)
      ? `The server listens on IPv4 only, but the published address is ${ip}.`
      : `The server listens at ${host}, which is no longer the published address.`
    return { kind: 'misplaced', reason: 'NoHostAddress', message }
  }
  if (ip === undefined) return undefined
  const apiKey = apiKeySecret === undefined ? undefined : rooms.apiKeys.stateOf(key)
  if (apiKey?.kind === 'unusable') return { kind: 'closed', reason: 'NoApiKey', message: apiKey.message }
  if (apiKey?.kind === 'unknown') return { kind: 'unknown', reason: 'NoApiKey', message: apiKey.message }
  const door = isRelayed ? rooms.ingress.state : rooms.door(ip, port)
  if (door.kind === 'open') return undefined
  const isForOthers = rooms.settings.listen() === 'all' && runtime !== undefined && !runtimes[runtime].isBehindGateway
  // It was started for LLMKube's relay alone, and no gateway can listen for it where pods come now.
  if (door.kind === 'closed' && !isRelayed && warning !== undefined && isForOthers) {
    return { ...door, kind: 'misplaced', reason: 'NoHostAddress' }
  }
  return { ...door, reason: 'NoGateway' }
}

/** Why a server that is started now would be of no use, or open without the key that its service asks for. */
export function listenObstacle(
  { key, address: { ip, warning }, apiKeySecret, runtime, rooms: { settings, publisher } }: ReachInputs,
  now: number,
): { readonly reason: ListenObstacle; readonly message: string; readonly retryAt: number } | undefined {
  // The ingress is at every address of this machine.
  if (publisher.wayFor(key) === 'relay') return undefined
  const mode = runtime && runtimes[runtime].isBehindGateway ? 'gateway' : settings.listen()
  const retryAt = now + lookAgainMs
  if (apiKeySecret !== undefined && mode !== 'gateway') return { reason: 'NoApiKey', message: openToAll, retryAt }
  if (mode === 'all' || ip === undefined || warning === undefined) return undefined
  const message = `${ip} is on no interface of this machine, so the agent cannot listen there, which ${runtime === undefined || !runtimes[runtime].isBehindGateway ? `--listen ${mode} requires: set --listen all, or` : `${runtime} requires:`} choose an address of this machine.`
  return { reason: 'NoHostAddress', message, retryAt }
}

const openToAll = `Its annotation ${apiKeyAnnotation} asks for an API key, which only the gateway checks: set --listen gateway, or remove the annotation. Until then its server does not run, because it would be open to everyone.`
