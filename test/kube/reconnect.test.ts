import { channel } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import path from 'node:path'
import { expect, test } from 'vitest'
import { KubeApi } from '../../src/agent-core/kube/kube-api.ts'
import { PinnedContext } from '../../src/agent-core/kube/pinned-context.ts'
import { resources } from '../../src/agent-core/kube/resources.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** Between a client and a server: what it carries may fall silent without an end, as when a laptop wakes in another network. */
async function relayTo(port: number) {
  const sockets = new Set<Socket>()
  let connections = 0
  const server = createServer((near) => {
    connections += 1
    const far = connect(port, '127.0.0.1')
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from)
      from.on('error', () => to.destroy()).on('close', () => to.destroy())
      from.pipe(to)
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return connections
    },
    fallSilent: () => {
      for (const socket of sockets) socket.unpipe().pause()
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

/** Is on its way when this resolves. */
function nextRequest(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const sent = channel('undici:client:sendHeaders')
  const onSent = () => resolve(undefined)
  sent.subscribe(onSent)
  return promise.finally(() => sent.unsubscribe(onSent))
}

test('after a wake no request waits on a connection of before, whose other end may be gone without a word', async () => {
  await using sim = await KubeSim.start()
  await using folder = await temporaryFolder()
  const { port } = new URL(sim.connection().server)
  await using relay = await relayTo(Number(port))
  const file = path.join(folder.dir, 'kubeconfig')
  await writeFile(file, sim.kubeconfig().replaceAll(`:${port}`, `:${relay.port}`))
  const context = await PinnedContext.load({ file, env: {} })
  const api = new KubeApi(context)
  const list = () => api.list(resources.models, { namespace: 'default' })
  // One that has just answered may not be free yet: when two requests in a row open none, there is another that is.
  await eventually(async () => {
    const before = relay.connections
    for (let request = 0; request < 2; request += 1) await list()
    return relay.connections === before
  })
  relay.fallSilent()
  const sent = nextRequest()
  const waiting = expect(list()).rejects.toThrow('this machine may have slept')
  await sent
  context.reconnect()
  await waiting
  expect((await list()).items).toEqual([])
})
