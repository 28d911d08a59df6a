import { isIP } from 'node:net'
import { isIpv6 } from '../../contract/addresses.ts'
import type { ListenMode } from '../../contract/settings-table.ts'

/** The addresses at which our servers may listen, besides the published one. */
export const everyAddress = '0.0.0.0'
/** Takes what comes to addresses of IPv4 too. */
const everyAddressOfSix = '::'
export const loopback = '127.0.0.1'

/** Whether a server that listens at `host` takes what is sent to `address`. */
export const takesAt = (host: string, address: string): boolean =>
  host === address || host === everyAddressOfSix || (host === everyAddress && !isIpv6(address))

export const isEveryAddress = (host: string): boolean => host === everyAddress || host === everyAddressOfSix

/** Where a server listens, as its arguments say; agents that did not say it told every server to listen everywhere. */
export function hostIn(argv: readonly string[]): string {
  const at = argv.indexOf('--host')
  return (at === -1 ? undefined : argv[at + 1]) ?? everyAddress
}

/** The same of a command line whose words are not known apart; undefined where it does not say. */
export function hostInText(commandLine: string): string | undefined {
  const [, host = ''] = / --host (\S+)/.exec(commandLine) ?? []
  return isIP(host) === 0 ? undefined : host
}

/** Where this machine asks a server that listens at `host`: health checks, figures and the gateway all go there. */
export const askedAt = (host: string): string => (isEveryAddress(host) ? loopback : host)

/** Where a server that is started now listens: on loopback if there is no published address. */
export function hostFor(mode: ListenMode, published: string | undefined): string {
  if (mode === 'all') return published !== undefined && isIpv6(published) ? everyAddressOfSix : everyAddress
  return mode === 'published' ? (published ?? loopback) : loopback
}
