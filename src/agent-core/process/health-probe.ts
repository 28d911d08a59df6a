import { get } from 'node:http'

/** Any answer is a sign of life; what it means is for the caller. */
export type ProbeAnswer =
  { readonly kind: 'answered'; readonly status: number } | { readonly kind: 'silent'; readonly reason: string }

export type HealthProbe = (port: number, timeLimitMs: number, signal: AbortSignal) => Promise<ProbeAnswer>

/** One request on a connection of its own: a kept one would tell us about the connection, and linger in the server. */
export const probeHealth: HealthProbe = (port, timeLimitMs, signal) =>
  new Promise((resolve) => {
    const request = get({ host: '127.0.0.1', port, path: '/health', agent: false, signal }, (response) => {
      resolve({ kind: 'answered', status: response.statusCode ?? 0 })
      response.on('error', () => response.destroy())
      response.resume()
    })
    const limit = setTimeout(() => request.destroy(new Error(`no answer within ${timeLimitMs} ms`)), timeLimitMs)
    limit.unref()
    request.on('close', () => {
      clearTimeout(limit)
    })
    request.on('error', (error) => resolve({ kind: 'silent', reason: error.message }))
  })
