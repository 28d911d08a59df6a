import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server } from 'node:net'
import type { HostInterface } from '../../agent-core/platform/platform.ts'
import { Ports } from '../../agent-core/servers/ports.ts'
import { chooseHostAddress, isVirtual } from '../../agent-core/publishing/host-address.ts'
import { judged, notHere, type Check, type Finding } from './check.ts'

/** Listens until it is disposed. Throws where somebody else does. */
async function listening(
  port: number,
  host: string,
): Promise<{ readonly port: number; readonly server: Server } & AsyncDisposable> {
  const server = createServer().listen(port, host)
  await once(server, 'listening')
  const { port: own } = server.address() as AddressInfo
  return {
    port: own,
    server,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, 'close')
      server.close()
      await closed
    },
  }
}

const besides = { darwin: 'is allowed', linux: 'is refused' } as const

const portBeside: Check = {
  id: 'port-beside',
  asks: 'to listen on all addresses of a port that somebody has on loopback',
  expected: 'is allowed on macOS, refused on Linux',
  isForMacs: false,
  answer: async ({ platform }) => {
    await using taken = await listening(0, '127.0.0.1')
    const found = await beside(taken.port)
    return judged(found === besides[platform.name], found)
  },
}

async function beside(port: number): Promise<string> {
  try {
    await using _ = await listening(port, '0.0.0.0')
    return besides.darwin
  } catch {
    return besides.linux
  }
}

const portFree: Check = {
  id: 'port-free',
  asks: 'a port that somebody has on loopback counts as taken',
  expected: 'taken',
  isForMacs: false,
  answer: async () => {
    await using taken = await listening(0, '127.0.0.1')
    const isFree = await new Ports().isFree(taken.port)
    return judged(!isFree, isFree ? 'free' : 'taken')
  },
}

const listeners: Check = {
  id: 'listeners',
  asks: 'who listens on a port is told',
  expected: 'this process alone',
  isForMacs: false,
  answer: async ({ platform }) => {
    await using own = await listening(0, '127.0.0.1')
    const groupId = (await platform.process(process.pid))?.groupId ?? 0
    const { ours, others } = await platform.portListeners(own.port, groupId)
    const isOurs = ours.length === 1 && ours[0] === process.pid && others.length === 0
    return judged(isOurs, isOurs ? 'this process alone' : `${ours.length} of ours, ${others.length} others`)
  },
}

const connections: Check = {
  id: 'connections',
  asks: 'connections to a port are counted',
  expected: '1 of 1',
  isForMacs: false,
  answer: async ({ platform }) => {
    await using own = await listening(0, '127.0.0.1')
    const accepted = once(own.server, 'connection')
    const client = connect(own.port, '127.0.0.1')
    try {
      await Promise.all([once(client, 'connect'), accepted])
      const count = await platform.establishedConnections(own.port)
      return judged(count === 1, `${count} of 1`)
    } finally {
      client.destroy()
    }
  },
}

const hostAddress: Check = {
  id: 'host-address',
  asks: 'which interface is published where the API server is on this machine',
  expected: 'Tailscale, or a network card such as en0',
  isForMacs: false,
  answer: ({ platform }) => Promise.resolve(publishedInterface(platform.interfaces())),
}

function publishedInterface(interfaces: readonly HostInterface[]): Finding {
  const chosen = chooseHostAddress(interfaces, undefined)
  const isAlone = interfaces.every(({ internal }) => internal)
  if (chosen.kind === 'none') return isAlone ? notHere('no network but loopback') : judged(false, 'none')
  const own = interfaces.find(({ address }) => address === chosen.address)
  const names = [...new Set(interfaces.filter(({ family }) => family === 'IPv4').map((one) => one.name))]
  const found = `${chosen.why}, of ${names.join(', ')}`
  const isCard = chosen.why.includes('tailnet') || (own !== undefined && !isVirtual(own))
  return isCard ? judged(true, found) : notHere(`no network card: ${found}`)
}

export const networkChecks: readonly Check[] = [portBeside, portFree, listeners, connections, hostAddress]
