import type { IncomingHttpHeaders } from 'node:http'
import {
  listenWithin,
  refuse,
  type BoundedServer,
  type BoundedServerOptions,
  type BoundedServerResult,
} from './bounded-server.ts'

export type LoopbackServerOptions = Omit<BoundedServerOptions, 'host'>
export type LoopbackServer = BoundedServer

/**
 * Listens on 127.0.0.1 and answers only requests whose Host is this machine under a name that no DNS record can point here (a web page
 * would otherwise reach us through a name of its own). Any port in it is accepted, since people use tunnels.
 */
export function listenOnLoopback(options: LoopbackServerOptions): Promise<BoundedServerResult> {
  return listenWithin({
    ...options,
    host: '127.0.0.1',
    handle: (request, response) => {
      if (isLoopbackHost(request.headers.host)) return options.handle(request, response)
      refuse(response, 421, 'This server answers to 127.0.0.1, localhost and [::1] only.')
    },
  })
}

/** 127.0.0.1, localhost or [::1], with any port or none. */
export function isLoopbackHost(host: string | undefined): boolean {
  return host !== undefined && /^(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?$/i.test(host)
}

/**
 * Whether another page made a browser ask. Host was looked at before; a program that is no browser sends neither of the two headers.
 */
export function isFromAnotherPage({ host = '', origin, 'sec-fetch-site': site }: IncomingHttpHeaders): boolean {
  const isOurs = origin === undefined || origin.toLowerCase() === `http://${host}`.toLowerCase()
  return !isOurs || (site !== undefined && site !== 'same-origin' && site !== 'none')
}
