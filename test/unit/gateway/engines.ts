import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createSocketServer, type AddressInfo, type Socket } from 'node:net'
import type { GatewayRoute } from '../../../src/contract/gateway.ts'
import { isAllowed } from '../../../src/gateway/paths.ts'

export interface Engine extends AsyncDisposable {
  readonly port: number
  /** Method and target of each request, as they came. */
  readonly seen: string[]
}

/** An engine that answers as a test says. */
export async function engine(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<Engine> {
  const seen: string[] = []
  const server = createServer((request, response) => {
    seen.push(`${request.method ?? ''} ${request.url ?? ''}`)
    answer(request, response)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** One that says something else than HTTP, or less. */
export async function rawEngine(answer: (socket: Socket) => void): Promise<Engine> {
  const sockets = new Set<Socket>()
  const server = createSocketServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => socket.destroy())
    socket.once('data', () => answer(socket))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    seen: [],
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export const routeTo = (name: string, port: number | undefined, more: Partial<GatewayRoute> = {}): GatewayRoute => ({
  ...{ namespace: 'default', name, runtime: 'llama-server', names: [] },
  ...(port !== undefined && { port }),
  ...more,
})

/** The requests that it saw although the list of its runtime has them not. */
export const forbiddenOf = ({ seen }: Engine, runtime: string): string[] =>
  seen.filter((line) => {
    const [verb = '', url = ''] = line.split(' ')
    const [plain = ''] = url.split('?')
    return !isAllowed(runtime, verb, decodeURIComponent(plain))
  })
