import { connect } from 'node:net'
import ipaddr from 'ipaddr.js'
import { errorCode } from '../util/error-code.ts'
import type { HostInterface } from './platform.ts'

/**
 * Whether macOS 15 or later keeps a program from the local network (Apple's TN3179). It says so to nobody: connections to addresses of the
 * same network end at once with EHOSTUNREACH. A machine that is switched off looks different there: xnu answers EHOSTDOWN, after its ARP
 * requests went unanswered for seconds (`arp_route_to_gateway_route`, bsd/netinet/in_arp.c).
 *
 * Whether the default router answers is read from the system's table of neighbours, which needs no permission. It is not asked: of the people
 * who met the denial some reached their router meanwhile, and some did not.
 */

export interface Refusal {
  readonly address: string
  readonly port: number
}

/** How one attempt to connect ended; no code: it did not fail within its time. */
export interface Attempt {
  readonly code: string | undefined
  readonly ms: number
}

export interface LocalNetworkFacts extends Refusal {
  readonly attempt: Attempt
  readonly interfaces: readonly HostInterface[]
  /** What `netstat -rn` prints. */
  readonly routes: string
  /** Effective user of this process. */
  readonly userId: number | undefined
  /** What `launchctl managername` prints. */
  readonly session: string
}

/** A refusal of the system comes in microseconds, an unanswered ARP request in a second at the earliest. */
const atOnceMs = 250

/** Networks without broadcasts, of which macOS does not ask: tunnels and the loopback interface. */
const withoutBroadcast = /^(?:lo|utun|ipsec|ppp|gif|stf)\d/

export const deniedSentence = (address: string): string =>
  `macOS does not let Metalbar reach your local network (${address}): allow it in System Settings → Privacy & Security → Local Network.`

/** Where the system found no way to connect; undefined where it failed in another way. */
export function unreachableAddress(error: unknown): Refusal | undefined {
  for (let current = error; current instanceof Error; current = current.cause) {
    if (current instanceof AggregateError) {
      return current.errors.map(unreachableAddress).find((one) => one !== undefined)
    }
    const { code, address, port } = current as Partial<Record<'code' | 'address' | 'port', unknown>>
    if (code === 'EHOSTUNREACH' && typeof address === 'string' && typeof port === 'number') return { address, port }
  }
  return undefined
}

/** Pure. Root and every daemon of launchd may reach the local network without being asked about. */
export function isDenied({ address, attempt, interfaces, routes, userId, session }: LocalNetworkFacts): boolean {
  if (userId === 0 || session.trim() === 'System') return false
  if (attempt.code !== 'EHOSTUNREACH' || attempt.ms >= atOnceMs) return false
  return isOnLink(address, interfaces) && routerAnswers(routes)
}

/** Whether packets go there without a router, through a network that macOS counts as local. */
export function isOnLink(address: string, interfaces: readonly HostInterface[]): boolean {
  const [plain = ''] = address.split('%')
  if (!ipaddr.isValid(plain)) return false
  const wanted = ipaddr.process(plain)
  return interfaces.some((one) => {
    if (one.internal || one.address === plain || withoutBroadcast.test(one.name)) return false
    const own = ipaddr.parse(one.address)
    const bits = ipaddr.parse(one.netmask).prefixLengthFromSubnetMask()
    return bits !== null && own.kind() === wanted.kind() && wanted.match(own, bits)
  })
}

/** From `netstat -rn`: whether a default router's hardware address is known, and the router still counts as there (no `R` for reject). */
export function routerAnswers(routes: string): boolean {
  const rows = routes.split('\n').map((line) => line.trim().split(/\s+/))
  const routers = rows.flatMap(([destination, gateway = '']) => (destination === 'default' ? [gateway] : []))
  return rows.some(
    ([destination = '', gateway = '', flags = '']) =>
      routers.includes(destination) && isHardwareAddress(gateway) && flags.includes('L') && !flags.includes('R'),
  )
}

/** macOS writes the bytes without leading zeros. */
const isHardwareAddress = (text: string): boolean => /^[0-9a-f]{1,2}(?::[0-9a-f]{1,2}){5}$/.test(text)

/** Connects once and hangs up, to see how soon it fails. */
export async function attemptAt({ address, port }: Refusal): Promise<Attempt> {
  const begun = performance.now()
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  const socket = connect({ host: address, port })
  const timer = setTimeout(() => resolve(undefined), atOnceMs)
  socket.once('connect', () => resolve(undefined))
  socket.once('error', (error) => resolve(errorCode(error)))
  const code = await promise
  clearTimeout(timer)
  socket.destroy()
  return { code, ms: performance.now() - begun }
}
