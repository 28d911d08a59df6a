import fc from 'fast-check'
import { once } from 'node:events'
import type { Socket } from 'node:net'

/** `make soak PATHS=100000` asks for more. */
export const forgedCount = Number(process.env['FORGED_PATHS'] ?? 2_000)

/** Methods and paths of which some are on a list and most are meant to look so; `starts`: what may stand before them. */
export function forgedRequests(starts: readonly string[]): (readonly [method: string, path: string])[] {
  const words = [
    ...['v1', 'models', 'api', 'pull', 'slots', 'lora-adapters', '.', '..', '%2e%2e', '%00', ';', '\\', '', 'V1'],
  ]
  const known = [
    ...['/v1/chat/completions', '/v1/models/qwen', '/tokenize', '/api/pull', '/api/chat', '/props', '/health'],
  ]
  const middle = fc.oneof(
    fc.constantFrom(...known),
    fc.array(fc.constantFrom(...words), { maxLength: 4 }).map((parts) => `/${parts.join('/')}`),
  )
  const odd = fc.string({
    ...{ minLength: 1, maxLength: 4 },
    unit: fc.constantFrom(...'a A / . % 2 f e ; : @ ! ?'.split(' ')),
  })
  const end = fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom('', '', '', '?a=/../', '/', '%2f', '%252fx', '/..', '#') },
    odd,
  )
  const path = fc.tuple(fc.constantFrom(...starts), middle, end).map((parts) => parts.join(''))
  const method = fc.constantFrom('GET', 'GET', 'POST', 'POST', 'POST', 'HEAD', 'OPTIONS', 'DELETE')
  return fc.sample(fc.tuple(method, path), { numRuns: forgedCount, seed: 1 })
}

interface Forging {
  readonly host: string
  readonly connect: () => Socket
  readonly perConnection?: number
}

/** Sends the requests, many on one connection; resolves when each was answered. `headers`: further lines, each with its end. */
export async function sendForged(
  requests: readonly (readonly [method: string, path: string, headers?: string])[],
  { host, connect, perConnection = 500 }: Forging,
): Promise<void> {
  for (let at = 0; at < requests.length; at += perConnection) {
    const texts = requests
      .slice(at, at + perConnection)
      .map(([verb, path, headers = '']) => `${verb} ${path} HTTP/1.1\r\nhost: ${host}\r\n${headers}\r\n`)
    const socket = connect()
    socket.on('error', () => socket.destroy())
    // The last one ends the connection.
    socket.write(`${texts.join('')}GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`)
    socket.resume()
    await once(socket, 'close')
  }
}
