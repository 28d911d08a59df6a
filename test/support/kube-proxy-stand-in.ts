import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { execa } from 'execa'
import { z } from 'zod'
import type { AdminClient } from './control-plane/admin-client.ts'
import type { NetworkNamespace } from './network-namespace.ts'

const service = z.object({
  spec: z.object({ clusterIP: z.string(), ports: z.array(z.object({ port: z.number(), targetPort: z.unknown() })) }),
})
const slice = z.object({
  endpoints: z
    .array(
      z.object({ addresses: z.array(z.string()), conditions: z.object({ ready: z.boolean().nullish() }).nullish() }),
    )
    .nullish(),
  ports: z.array(z.object({ port: z.number() })).nullish(),
})

/** Listens at a ClusterIP and connects each client to the endpoint that was read last from standard input; without one it resets. */
const forwarder = `
const net = require('node:net')
let target
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => { target = line === '' ? undefined : line.split(':') })
net.createServer((client) => {
  if (!target) return client.resetAndDestroy()
  const server = net.connect({ host: target[0], port: Number(target[1]) })
  client.pipe(server).pipe(client)
  for (const [one, other] of [[client, server], [server, client]]) one.on('error', () => other.destroy())
}).listen(Number(process.argv[2]), process.argv[1], () => console.log('listening'))
`

/** Does on another host, for one Service, what kube-proxy does on a node: its ClusterIP leads to what the EndpointSlice calls ready. */
export class KubeProxyStandIn implements AsyncDisposable {
  readonly url: string
  readonly #child: ChildProcess
  readonly #admin: AdminClient
  readonly #name: string
  #target = ''

  private constructor(child: ChildProcess, url: string, { admin, name }: { admin: AdminClient; name: string }) {
    this.#child = child
    this.url = url
    this.#admin = admin
    this.#name = name
  }

  static async start(host: NetworkNamespace, admin: AdminClient, name: string): Promise<KubeProxyStandIn> {
    const { spec } = service.parse(await admin.get({ apiVersion: 'v1', kind: 'Service', metadata: { name } }))
    const port = spec.ports[0]?.port ?? 0
    const [ip, ...args] = host.enter(['ip', 'address', 'add', `${spec.clusterIP}/32`, 'dev', 'lo'])
    await execa(ip, args)
    const [command, ...rest] = host.enter([process.execPath, '-e', forwarder, spec.clusterIP, String(port)])
    const child = spawn(command, rest, { stdio: ['pipe', 'pipe', 'inherit'] })
    await once(child.stdout, 'data')
    return new KubeProxyStandIn(child, `http://${spec.clusterIP}:${port}`, { admin, name })
  }

  /** Reads the EndpointSlice; answers where it leads now. */
  async sync(): Promise<string> {
    const found = await this.#admin.get({
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name: this.#name },
    })
    const { endpoints, ports } = slice.parse(found ?? {})
    const address = endpoints?.find(({ conditions }) => conditions?.ready === true)?.addresses[0]
    const target = address === undefined ? '' : `${address}:${ports?.[0]?.port ?? 0}`
    if (target !== this.#target) this.#child.stdin?.write(`${target}\n`)
    return (this.#target = target)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'close')
    this.#child.kill()
    await ended
  }
}
