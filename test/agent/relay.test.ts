import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { loadAllYaml } from '@kubernetes/client-node'
import { z } from 'zod'
import { AgentProcess } from '../support/agent-process.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { TestCluster } from '../support/control-plane/test-cluster.ts'
import { startControllerStandIn, type ControllerStandIn } from '../support/controller-stand-in/controller-stand-in.ts'
import { KubeHttp } from '../support/controller-stand-in/kube-http.ts'
import type { Relay } from '../support/controller-stand-in/relay-mode.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { RelayStandIn } from '../support/relay-stand-in.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'

const api = useRealApiServer()

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

test('where LLMKube is updated to 0.10 its relay alone reaches the model soon, and the address of this machine again where a person says so: no request fails, and no model is started again', async () => {
  await using cluster = await TestCluster.open(api().connection)
  await using world = await AgentWorld.open(api().connection, { controller: false, namespace: cluster.namespace })
  await using relays = new Relays(world)
  await using controllers = new Controllers(world, relays)
  await controllers.be('0.9')
  const ingressPort = await freePort()
  await using agent = await AgentProcess.start({
    folder: join(world.folder, 'agent'),
    kubeconfig: await kubeconfigOf(cluster),
    args: [
      ...['--namespace', world.namespace, '--llama-server', sampleServerPath],
      ...['--ingress-port', String(ingressPort)],
    ],
  })
  relays.ingressPort = ingressPort
  await world.applyModel('tiny')
  await world.applyService('tiny')
  const { pid } = await agent.service('tiny', 'ready')
  await using client = new Client(world)
  await client.served(5)
  await agent.run('settings', 'set', 'publish', 'auto')
  await eventually(async () => (await world.published('tiny-agent'))?.ready === true, { what: 'the ingress beside it' })

  await controllers.be('0.10')
  await eventually(() => world.publishedKinds('tiny').then((kinds) => kinds.join() === 'Service'), {
    what: 'nothing but the relay',
    timeoutMs: 60_000,
  })
  await client.served(20)
  expect(relays.answered).toBeGreaterThan(0)
  expect((await agent.service('tiny', 'ready')).message).toMatch(
    `Serving by LLMKube's relay, which asks this machine at 192.0.2.10:${ingressPort}.`,
  )

  await agent.run('settings', 'set', 'publish', 'direct')
  await eventually(async () => (await world.publishedKinds('tiny-agent')).length === 0, {
    what: 'the end of the ingress',
    timeoutMs: 60_000,
  })
  await client.served(20)
  expect((await world.publishedKinds('tiny')).toSorted()).toEqual(['EndpointSlice', 'Endpoints', 'Service'])
  await controllers.be('0.9')
  await client.served(5)
  expect(client.failures).toEqual([])
  const denied = agent.log.filter((line) => JSON.stringify(line).includes('forbidden'))
  // Its Lease is a right of its own.
  expect(denied.filter(({ msg }) => msg !== 'lease not written')).toEqual([])
  expect((await agent.service('tiny', 'ready')).pid).toBe(pid)
})

/** Of a user who may do what the two roles of assets/rbac.yaml say, and nothing else. */
async function kubeconfigOf(cluster: TestCluster): Promise<string> {
  const text = await readFile(join(import.meta.dirname, '../../assets/rbac.yaml'), 'utf8')
  const roles = z.array(role).parse(loadAllYaml(text))
  const rules = roles.filter(({ metadata: { name } }) => name === 'metalbar-agent' || name === 'metalbar-relay')
  const { kubeconfig } = await cluster.restrictedKubeconfig(rules.flatMap((one) => one.rules))
  return readFile(kubeconfig, 'utf8')
}

const role = z.object({
  metadata: z.object({ name: z.string() }),
  rules: z.array(
    z.object({
      apiGroups: z.array(z.string()),
      resources: z.array(z.string()),
      resourceNames: z.array(z.string()).exactOptional(),
      verbs: z.array(z.string()),
    }),
  ),
})

/** LLMKube's controller, of one version at a time. */
class Controllers implements AsyncDisposable {
  readonly #world: AgentWorld
  readonly #relays: Relays
  #controller: ControllerStandIn | undefined

  constructor(world: AgentWorld, relays: Relays) {
    this.#world = world
    this.#relays = relays
  }

  async be(version: '0.9' | '0.10'): Promise<void> {
    await this.#controller?.stop()
    this.#controller = await startControllerStandIn({
      ...{ connection: api().connection, namespace: this.#world.namespace, requeueMs: 500 },
      ...(version === '0.10' && { relayPod: (relay) => this.#relays.pod(relay) }),
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#controller?.stop()
  }
}

/** The Pods of the relays, one for each pin. */
class Relays implements AsyncDisposable {
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
class Client implements AsyncDisposable {
  readonly #http = new KubeHttp(api().connection)
  readonly #world: AgentWorld
  readonly #asking: Promise<void>
  #isOver = false
  #turn = 0
  answered = 0
  readonly failures: string[] = []

  constructor(world: AgentWorld) {
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
    while (!this.#isOver) {
      const ports = await this.#ports()
      const port = ports[this.#turn++ % ports.length]
      const failure = port === undefined ? 'The Service has no endpoint.' : await this.#complete(port)
      if (failure === undefined) this.answered += 1
      else this.failures.push(failure)
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
