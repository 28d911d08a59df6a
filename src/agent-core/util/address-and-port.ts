import { isIPv4, isIPv6 } from 'node:net'

export interface AddressAndPort {
  readonly host: string
  readonly port: number
}

/** Parses `192.168.1.20:9091` or `[::]:9091`. Anything else is undefined; host names too, since what they resolve to can change. */
export function parseAddressAndPort(text: string): AddressAndPort | undefined {
  const [, six, four, digits] = /^(?:\[([^\]]{1,60})\]|([\d.]{7,15})):(\d{1,5})$/.exec(text) ?? []
  const host = six !== undefined && isIPv6(six) ? six : four !== undefined && isIPv4(four) ? four : undefined
  const port = Number(digits)
  return host === undefined || port < 1 || port > 65_535 ? undefined : { host, port }
}
