import { get } from 'node:http'

/** A look takes less than a millisecond on a server that is well; one that takes longer will not tell. */
const lookLimitMs = 500

/**
 * How many requests the server on this port works on or keeps waiting, by llama-server's own `/metrics`; undefined where
 * it does not tell.
 */
export function requestsInFlight(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const request = get(
      { host: '127.0.0.1', port, path: '/metrics', agent: false, timeout: lookLimitMs },
      (response) => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', (chunk: string) => (text += chunk))
        response.on('end', () => resolve(response.statusCode === 200 ? inFlight(text) : undefined))
        response.on('error', () => resolve(undefined))
      },
    )
    request.on('timeout', () => request.destroy())
    request.on('error', () => resolve(undefined))
    request.on('close', () => resolve(undefined))
  })
}

/** Reads `llamacpp:requests_processing` and `llamacpp:requests_deferred` out of Prometheus text. */
export function inFlight(metrics: string): number | undefined {
  const values = [...metrics.matchAll(/^llamacpp:requests_(?:processing|deferred) (\d+)/gm)].map(([, value]) =>
    Number(value),
  )
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0)
}
