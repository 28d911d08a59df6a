import { z } from 'zod'

/** An address of IPv4 or IPv6, without a zone. */
export const ipAddress = z.union([z.ipv4(), z.ipv6()])

export const isIpv6 = (address: string): boolean => address.includes(':')

/** As it stands in an address of the web: IPv6 in brackets. */
export const inUrl = (address: string): string => (isIpv6(address) ? `[${address}]` : address)

/** `192.168.1.20:8080`, `[fd00::20]:8080`. */
export const addressAndPort = (address: string, port: number | string): string => `${inUrl(address)}:${port}`
