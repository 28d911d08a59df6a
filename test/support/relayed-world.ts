import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import type { AgentWorld } from './agent-world.ts'
import type { ClusterConnection } from './control-plane/admin-client.ts'
import { startControllerStandIn, type ControllerStandIn } from './controller-stand-in/controller-stand-in.ts'
import { KubeHttp } from './controller-stand-in/kube-http.ts'
import type { Relay } from './controller-stand-in/relay-mode.ts'
import { eventually } from './eventually.ts'
import { RelayStandIn } from './relay-stand-in.ts'

const slices = z.object({
  items: z.array(
    z.looseObject({
      endpoints: z
        .array(z.looseObject({ conditions: z.looseObject({ ready: z.boolean().nullish() }).nullish() }))
        .nullish(),
      ports: z.array(z.looseObject({ port: z.number() })).nullish(),
    }),
  ),
})

/** LLMKube's controller, of one version at a time. */
export class Controllers implements AsyncDisposable {
  readonly #connection: ClusterConnection
  readonly #world: AgentWorld
  readonly #relays: Relays
  #controller: ControllerStandIn | undefined

  constructor(connection: ClusterConnection, world: AgentWorld, relays: Relays) {
    this.#connection = connection
    this.#world = world
    this.#relays = relays
  }

  async be(version: '0.9' | '0.10'): Promise<void> {
    await this.#controller?.stop()
    this.#controller = await startControllerStandIn({
      ...{ connection: this.#connection, namespace: this.#world.namespace, requeueMs: 500 },
      ...(version === '0.10' && { relayPod: (relay) => this.#relays.pod(relay) }),
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#controller?.stop()
  }
}

/** The Pods of the relays, one for each pin. */
export class Relays implements AsyncDisposable {
  readonly #folder: string
  readonly #pods = new Map<string, Promise<RelayStandIn>>()
  readonly #started: RelayStandIn[] = []
  ingressPort = 0

  constructor(world: AgentWorld) {
    this.#folder = join(world.folder, 'relays')
  }

  get answered(): number {
    return this.#started.reduce((sum, { requests }) => sum + (requests[200] ?? 0), 0)
  }

  /** That were ever started: one for each service and pin. */
  get count(): number {
    return this.#started.length
  }

  get pinMismatches(): number {
    return this.#started.reduce((sum, { pinMismatches }) => sum + pinMismatches, 0)
  }

  async pod({ namespace, name, pin, token }: Relay): Promise<{ address: string; port: number } | undefined> {
    const key = `${namespace}/${name} ${pin}`
    const known = this.#pods.get(key) ?? this.#start(`${namespace}/${name}`, pin, token)
    this.#pods.set(key, known)
    const pod = await known
    return (await pod.isReady()) ? { address: '10.42.0.9', port: Number(new URL(pod.url).port) } : undefined
  }

  async #start(target: string, pin: string, token: string): Promise<RelayStandIn> {
    await mkdir(this.#folder, { recursive: true })
    const tokenFile = join(this.#folder, `token-${this.#pods.size}`)
    await writeFile(tokenFile, token)
    const upstream = () => ({ host: '127.0.0.1', port: this.ingressPort })
    const pod = await RelayStandIn.start({ target, upstream, pin, tokenFile })
    this.#started.push(pod)
    return pod
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const pod of this.#started) await pod[Symbol.asyncDispose]()
  }
}

/** A program in the cluster that asks all the time, at one of the endpoints of the Service by turns, as kube-proxy would lead it. */
export class Client implements AsyncDisposable {
  readonly #http: KubeHttp
  readonly #world: AgentWorld
  readonly #asking: Promise<void>
  #isOver = false
  #turn = 0
  answered = 0
  readonly failures: string[] = []
  /** Times in which nobody answered. */
  outages = 0

  constructor(connection: ClusterConnection, world: AgentWorld) {
    this.#http = new KubeHttp(connection)
    this.#world = world
    this.#asking = this.#ask()
  }

  /** So many more. */
  async served(count: number): Promise<void> {
    const wanted = this.answered + count
    await eventually(() => this.answered >= wanted, { what: `${count} more answers`, timeoutMs: 60_000 })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true
    await this.#asking
    this.#http.close()
  }

  async #ask(): Promise<void> {
    let isFailing = true
    while (!this.#isOver) {
      const ports = await this.#ports()
      const port = ports[this.#turn++ % ports.length]
      const failure = port === undefined ? 'The Service has no endpoint.' : await this.#complete(port)
      if (failure === undefined) this.answered += 1
      else this.failures.push(failure)
      if (failure !== undefined && !isFailing) this.outages += 1
      isFailing = failure !== undefined
    }
  }

  /** Every address of this test is this machine. */
  async #ports(): Promise<number[]> {
    const { namespace } = this.#world
    const path = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dtiny`
    const { items } = slices.parse((await this.#http.request({ path })).body)
    return items.flatMap(({ endpoints, ports }) =>
      endpoints?.some(({ conditions }) => conditions?.ready === true) === true ? [ports?.[0]?.port ?? 0] : [],
    )
  }

  async #complete(port: number): Promise<string | undefined> {
    try {
      const answer = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], max_tokens: 2 }),
      })
      const text = await answer.text()
      return answer.status === 200 ? undefined : `${port}: ${answer.status} ${text.slice(0, 200)}`
    } catch (error) {
      return `${port}: ${String(error)}`
    }
  }
}
