import { randomUUID } from 'node:crypto'
import { afterEach, describe, expect, test } from 'vitest'
import type { PublishTarget } from '../../src/agent-core/publishing/objects.ts'
import { type Ingress, WaysToPublish } from '../../src/agent-core/publishing/ways.ts'
import { parseInferenceService, resources, type InferenceService } from '../../src/agent-core/kube/resources.ts'
import { ListWatch } from '../../src/agent-core/kube/list-watch.ts'
import { ObjectCache } from '../../src/agent-core/kube/object-cache.ts'
import type { PublishMode } from '../../src/contract/settings-table.ts'
import { apiWorlds, type World } from '../support/api-worlds/api-worlds.ts'
import {
  startControllerStandIn,
  type ControllerStandInOptions,
} from '../support/controller-stand-in/controller-stand-in.ts'
import { eventually } from '../support/eventually.ts'
import { silentLog } from '../support/silent-log.ts'
import { type Crds, startPublishingRoom, type PublishingAgent } from './publishing-agent.ts'
import { clusterOf } from './publishing-cluster.ts'

const server = { address: '192.0.2.7', port: 53_211, ready: true }
const pin = Buffer.alloc(32, 7).toString('base64')
const managedBy = 'llmkube.ai/managed-by'
const relayPod = () => Promise.resolve({ address: '10.42.0.9', port: 8080 })

describe.each(apiWorlds)('ways to publish, on $name', ({ use }) => {
  const world = use()
  let open = new AsyncDisposableStack()
  afterEach(async () => {
    await open.disposeAsync()
    open = new AsyncDisposableStack()
  })

  test('with LLMKube 0.10 the ingress is published beside the address, and alone once the relay answers for the Service', async () => {
    const there = await begin({ relayPod })
    const { cluster, target, agent } = there
    await there.serve()
    expect(await cluster.get('endpointslices', 'tiny-agent')).toMatchObject({
      metadata: {
        labels: {
          app: 'tiny',
          [managedBy]: 'metal-agent',
          'llmkube.ai/inference-service': 'tiny',
          'kubernetes.io/service-name': 'tiny-agent',
        },
        annotations: { 'llmkube.ai/agent-ingress-spki': pin, 'llmkube.ai/agent-engine-port': '53211' },
      },
      addressType: 'IPv4',
      endpoints: [
        { addresses: ['192.0.2.7'], conditions: { ready: true }, targetRef: { kind: 'Pod', name: 'tiny-metal' } },
      ],
      ports: [{ name: 'https', port: 9443, protocol: 'TCP' }],
    })
    expect(await cluster.get('services', 'tiny-agent')).toMatchObject({
      metadata: { annotations: { 'llmkube.ai/metal-accelerated': 'true', 'llmkube.ai/native-process': 'true' } },
      spec: { type: 'ClusterIP', ports: [{ name: 'https', port: 8443, targetPort: 9443, protocol: 'TCP' }] },
    })
    expect((await cluster.get('services', 'tiny-agent')).spec).not.toHaveProperty('selector')
    await there.until('relay')
    await there.serve()
    expect([await cluster.kindsOf('tiny-agent'), await cluster.kindsOf('tiny')]).toEqual([
      ['services', 'endpointslices'],
      ['services'],
    ])
    expect((await cluster.get('services', 'tiny')).metadata.labels ?? {}).not.toHaveProperty([managedBy])
    expect(agent.publisher.observe(target)).toMatchObject({
      claim: { kind: 'ours' },
      complete: true,
      published: server,
    })
    expect(there.ingress.told.get(`${target.namespace}/tiny`)).toBe('alone')

    const next = await there.restarted()
    expect(next.agent.publisher.observe(target)).toMatchObject({
      claim: { kind: 'ours' },
      complete: true,
      published: server,
    })
    next.agent.api.takeRequests()
    await next.serve()
    expect([next.agent.api.takeRequests(), await cluster.kindsOf('tiny')]).toEqual([[], ['services']])
  })

  test('a controller that is quick finds the Service that it leads to its relay, and makes none of its own', async () => {
    const there = await begin({ relayPod })
    const { cluster, agent } = there
    agent.api.beforeCreate = async (plural, name) => {
      const isForControllerToMake =
        plural === 'services' && name === 'tiny' && (await cluster.find('endpointslices', 'tiny-agent'))
      if (isForControllerToMake) await eventually(() => cluster.find('services', 'tiny'))
    }
    await there.serve()
    await there.until('relay')
  })

  test('with LLMKube 0.9 nothing of the relay is written, and with CRDs of 0.10 and no relay the address of this machine stays', async () => {
    const there = await begin({})
    const { cluster, agent } = there
    await there.serve()
    await there.readCrds()
    await there.serve()
    expect([await cluster.kindsOf('tiny-agent'), there.way(), [...there.ingress.told.values()]]).toEqual([
      [],
      'direct',
      ['not relayed'],
    ])
    agent.api.crds = '0.10'
    await there.until('both')
    await there.serve()
    await there.readCrds()
    expect([there.way(), await cluster.kindsOf('tiny-agent'), await cluster.kindsOf('tiny')]).toEqual([
      'both',
      ['services', 'endpointslices'],
      ['services', 'endpoints', 'endpointslices'],
    ])
  })

  test('where LLMKube is set back to 0.9 pods come to this machine again, and nothing of the relay is left', async () => {
    const there = await begin({ relayPod })
    const { cluster, agent } = there
    await there.serve()
    await there.until('relay')
    await there.serve()
    await there.controlledBy({})
    // Kubernetes is quicker to remove what it made for the Service.
    let removedByOthers = 0
    agent.api.beforeDelete = async (_plural, name) => {
      if (name !== 'tiny-relay') return
      removedByOthers += 1
      await cluster.delete('endpointslices', name)
    }
    agent.api.crds = '0.9'
    await there.until('direct')
    await there.serve()
    await there.left()
    const service = await cluster.get('services', 'tiny')
    expect(service.metadata.labels).toMatchObject({ [managedBy]: 'metal-agent' })
    expect(service.spec).not.toHaveProperty('selector')
    expect([await cluster.find('endpointslices', 'tiny-relay'), removedByOthers]).toEqual([undefined, 1])
    await eventually(() => there.phase() === 'Ready')
  })

  test('CRDs that cannot be read are no sign that relays are gone, not even after a start', async () => {
    const before = await begin({ relayPod })
    await before.serve()
    await before.until('relay')
    await before.serve()
    before.agent.api.crds = 'unreadable'
    await before.readCrds()
    expect(before.way()).toBe('relay')
    const there = await before.restarted()
    await there.readCrds()
    await there.serve()
    expect([there.way(), await there.cluster.kindsOf('tiny-agent')]).toEqual(['relay', ['services', 'endpointslices']])
  })

  test('a relay that is not ready has the address of this machine beside it, until it is ready', async () => {
    let pod: Awaited<ReturnType<typeof relayPod>> | undefined
    const there = await begin({ relayPod: () => Promise.resolve(pod) })
    const { cluster } = there
    await there.serve()
    await eventually(async () => 'selector' in ((await cluster.get('services', 'tiny')).spec as object))
    await there.serve()
    expect([there.way(), await cluster.kindsOf('tiny')]).toEqual(['both', ['services', 'endpoints', 'endpointslices']])
    pod = await relayPod()
    await there.until('relay')
    await there.serve()
    pod = undefined
    await there.until('both')
    await there.serve()
    expect(await cluster.kindsOf('tiny')).toEqual(['services', 'endpoints', 'endpointslices'])
  })

  test('where the agent may not read the token of relays, the ingress goes, and is published again once it may', async () => {
    const there = await begin({ relayPod: () => Promise.resolve(undefined) })
    there.ingress.isDenied = true
    await there.serve()
    await there.until('direct')
    await there.left()
    expect(there.ingress.told.get(`${there.target.namespace}/tiny`)).toBe('beside')
    there.ingress.isDenied = false
    await there.until('both')
  })

  test('with --publish direct what the relay left is taken back, and with relay the direct objects go', async () => {
    const there = await begin({ relayPod }, 'relay')
    const { cluster } = there
    await there.serve()
    expect([await cluster.kindsOf('tiny-agent'), there.way()]).toEqual([['services', 'endpointslices'], 'relay'])
    await eventually(async () => (await cluster.find('services', 'tiny')) !== undefined)
    there.mode = 'direct'
    await there.serve()
    const leaving = await cluster.get('endpointslices', 'tiny-agent')
    expect(leaving).toMatchObject({ endpoints: [{ conditions: { ready: true } }] })
    expect(leaving.metadata.annotations).not.toHaveProperty('llmkube.ai/agent-ingress-spki')
    for (let beat = 0; beat < 3; beat += 1) {
      await there.serve()
      expect((await cluster.find('endpointslices', 'tiny-agent'))?.metadata.annotations ?? {}).not.toHaveProperty(
        'llmkube.ai/agent-ingress-spki',
      )
    }
    await there.left()
    expect(await cluster.kindsOf('tiny')).toEqual(['services', 'endpoints', 'endpointslices'])
    // The controller may have decided by what it saw before.
    await eventually(async () => {
      await there.serve()
      return !('selector' in ((await cluster.get('services', 'tiny')).spec as object))
    })
    there.mode = 'relay'
    await there.serve()
    expect([await cluster.kindsOf('tiny-agent'), await cluster.kindsOf('tiny')]).toEqual([
      ['services', 'endpointslices'],
      ['services'],
    ])
  })

  test('a Service that the controller leads to no relay is told for each generation of the InferenceService, and one that it leads there is not', async () => {
    const there = await begin({}, 'relay')
    const { agent, cluster } = there
    await there.serve()
    await eventually(() => {
      agent.clock.now += 61_000
      return there.notAdopted.length > 0
    })
    expect(there.notAdopted).toEqual([
      expect.stringMatching(
        /\/tiny: LLMKube's controller routes Service tiny to no relay, so no pod reaches this model/,
      ),
    ])
    await cluster.patch('inferenceservices', 'tiny', { spec: { contextSize: 4_096 } })
    await eventually(() => there.notAdopted.length === 2)
    await there.controlledBy({ relayPod })
    await eventually(async () => (await cluster.find('services', 'tiny')) !== undefined)
    await cluster.patch('inferenceservices', 'tiny', { spec: { contextSize: 8_192 } })
    await there.looked()
    expect(there.notAdopted).toHaveLength(2)
  })

  test('what another machine holds for its relay is not served here, and is taken over from it once it is dead', async () => {
    const there = await begin({ relayPod }, 'relay')
    await there.serve()
    const other = await there.another('direct')
    expect(other.agent.publisher.observe(there.target)).toMatchObject({
      claim: { kind: 'foreign' },
      recheckInMs: expect.any(Number) as number,
    })
    await there.agent[Symbol.asyncDispose]()
    other.agent.clock.now += 181_000
    expect(other.agent.publisher.observe(there.target).claim.kind).toBe('dead')
    expect(await other.agent.publisher.takeOver(there.target)).toEqual({ kind: 'done' })
    await other.left()
  })

  test('of two machines that claim a service in the same moment, one directly and one for a relay, the one for the relay gives it up', async () => {
    const relayed = await begin(undefined, 'relay')
    const direct = await relayed.another('direct')
    const { target } = relayed
    const claimed = await Promise.all([relayed, direct].map(({ agent }) => agent.publisher.claim(target)))
    expect(claimed).toEqual([{ kind: 'done' }, { kind: 'done' }])
    await eventually(() => relayed.agent.publisher.observe(target).claim.kind === 'foreign')
    await eventually(async () => {
      const { annotations = {} } = (await relayed.cluster.get('endpointslices', 'tiny-agent')).metadata
      return !('llmkube.ai/agent-ingress-spki' in annotations)
    })
    await direct.left()
    expect(await relayed.cluster.kindsOf('tiny')).toEqual(['services', 'endpoints', 'endpointslices'])
    expect(relayed.agent.publisher.observe(target).claim).toMatchObject({ kind: 'foreign', holder: 'node-b.local' })
  })

  test('an agent of LLMKube that publishes a service for a relay is left it, since the controller prefers that', async () => {
    const there = await begin(undefined, 'direct')
    const { agent, target, cluster } = there
    await there.serve()
    await cluster.create('endpointslices', {
      metadata: {
        name: 'tiny-agent',
        labels: {
          ...{ app: 'tiny', [managedBy]: 'metal-agent', 'llmkube.ai/inference-service': 'tiny' },
          'kubernetes.io/service-name': 'tiny-agent',
        },
        annotations: { 'llmkube.ai/agent-heartbeat': new Date().toISOString() },
      },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['192.0.2.99'], conditions: { ready: true } }],
      ports: [{ name: 'https', port: 9443, protocol: 'TCP' }],
    })
    await eventually(() => agent.publisher.observe(target).claim.kind === 'unclaimed')
    const ready = { endpoints: [{ conditions: { ready: true } }] }
    await eventually(async () => {
      expect(await cluster.get('endpointslices', 'tiny')).not.toMatchObject(ready)
      return true
    })
    expect(await cluster.get('endpointslices', 'tiny-agent')).toMatchObject(ready)
  })

  test('a service that is really named so, and one whose name is too long, are left as they are', async () => {
    const there = await begin(undefined)
    const own = await there.serviceNamed('tiny-agent')
    await there.serve(own)
    await there.serve()
    expect(await there.cluster.get('endpointslices', 'tiny-agent')).toMatchObject({
      metadata: { labels: { 'llmkube.ai/inference-service': 'tiny-agent' } },
      ports: [{ port: 53_211 }],
    })
    const long = await there.serviceNamed('x'.repeat(58))
    await there.serve(long)
    expect(await there.cluster.kindsOf(`${long.name}-agent`)).toEqual([])
    there.mode = 'relay'
    expect(there.agent.publisher.observe(long)).toMatchObject({ claim: { kind: 'ours' }, published: server })
    const longer = await there.serviceNamed('y'.repeat(58))
    expect(there.agent.publisher.observe(longer).claim).toMatchObject({ kind: 'taken', isNameTooLong: true })
  })

  async function begin(controller: Partial<ControllerStandInOptions> | undefined, mode: PublishMode = 'auto') {
    const { connection, http } = world()
    const namespace = `relay-${randomUUID().slice(0, 8)}`
    await http.request({ method: 'POST', path: '/api/v1/namespaces', body: { metadata: { name: namespace } } })
    const here = { ...world(), connection, namespace }
    const cluster = clusterOf(here)
    await cluster.create('models', {
      metadata: { name: 'tiny' },
      spec: { source: 'https://models.example/tiny.gguf', hardware: { accelerator: 'metal' } },
    })
    const target = await cluster.inferenceService('tiny')
    const crds = controller?.relayPod === undefined ? '0.9' : '0.10'
    const story = new Story({ world: here, target, mode, crds, ends: open })
    await story.controlledBy(controller)
    return story.start('node-a')
  }
})

interface StoryOptions {
  readonly world: World
  readonly target: PublishTarget
  readonly mode: PublishMode
  readonly crds: Crds
  readonly ends: AsyncDisposableStack
}

/** One agent's room for publishing and a controller that stands in for LLMKube's. */
class Story {
  readonly cluster: ReturnType<typeof clusterOf>
  readonly target: PublishTarget
  readonly #options: StoryOptions
  readonly ingress = new OpenIngress()
  readonly crds: Crds
  mode: PublishMode
  readonly notAdopted: string[] = []
  readonly #services = new ObjectCache<InferenceService>()
  #agent: PublishingAgent<WaysToPublish> | undefined
  #controller: AsyncDisposable | undefined

  constructor(options: StoryOptions) {
    this.#options = options
    this.cluster = clusterOf(options.world)
    this.target = options.target
    this.mode = options.mode
    this.crds = options.crds
    options.ends.defer(() => this.#controller?.[Symbol.asyncDispose]())
  }

  get agent(): PublishingAgent<WaysToPublish> {
    if (!this.#agent) throw new Error('It was not started.')
    return this.#agent
  }

  async controlledBy(options: Partial<ControllerStandInOptions> | undefined): Promise<void> {
    const { connection, namespace } = this.#options.world
    await this.#controller?.[Symbol.asyncDispose]()
    this.#controller = options && (await startControllerStandIn({ connection, namespace, requeueMs: 200, ...options }))
  }

  async start(node: string): Promise<this> {
    const { world, ends } = this.#options
    const agent = await startPublishingRoom(
      world,
      node,
      (given) =>
        new WaysToPublish({
          ...given,
          ...{ mode: () => this.mode, ingress: this.ingress, lookEveryMs: 20 },
          inferenceService: ({ namespace, name }) => this.#services.get(namespace, name),
          onNotAdopted: (key, message) => this.notAdopted.push(`${key}: ${message}`),
        }),
    )
    this.#agent = agent
    ends.use(agent)
    agent.api.crds = this.crds
    agent.publisher.setWatchLive(true)
    const watch = new ListWatch({
      ...{ api: agent.api, namespace: world.namespace, log: silentLog, onState: () => undefined },
      ...{ resource: resources.inferenceServices, parse: parseInferenceService, cache: this.#services },
    })
    watch.start()
    ends.defer(() => watch.stop())
    await eventually(() => watch.state().state === 'live')
    return this
  }

  /** The same machine after its agent was ended. */
  async restarted(): Promise<Story> {
    const { crds } = this.agent.api
    await this.agent[Symbol.asyncDispose]()
    return new Story({ ...this.#options, mode: this.mode, crds }).start('node-a')
  }

  another(mode: PublishMode): Promise<Story> {
    return new Story({ ...this.#options, mode }).start('node-b')
  }

  serviceNamed(name: string): Promise<PublishTarget> {
    return this.cluster.inferenceService(name)
  }

  /** Serves until nothing is left of what was published for a relay. */
  async left(target = this.target): Promise<void> {
    await eventually(async () => {
      this.agent.clock.now += 5_000
      await this.serve(target)
      return (await this.cluster.kindsOf(`${target.name}-agent`)).length === 0
    })
  }

  /** As the plan of a service does whose server answers, until nothing is left to do. */
  async serve(target = this.target): Promise<void> {
    const { publisher } = this.agent
    const observe = () => publisher.observe(target)
    if (observe().claim.kind !== 'ours') expect(await publisher.claim(target)).toEqual({ kind: 'done' })
    for (let step = 0; step < 20; step += 1) {
      const { published, complete, service, serviceIsOwn, serviceUpToDate } = observe()
      const isPublished = published?.ready === true && published.port === server.port && complete
      if (!isPublished) expect(await publisher.publish(target, server)).toEqual({ kind: 'done' })
      else if (service.kind !== 'ours' || !serviceIsOwn || !serviceUpToDate) await publisher.ensureService(target)
      else return
    }
    throw new Error(`Something is always left to do: ${JSON.stringify(observe())}`)
  }

  way() {
    this.agent.publisher.observe(this.target)
    return this.agent.publisher.wayFor(`${this.target.namespace}/${this.target.name}`)
  }

  phase(): string | undefined {
    return this.#services.get(this.target.namespace, this.target.name)?.status.phase
  }

  async until(way: 'direct' | 'both' | 'relay'): Promise<void> {
    await eventually(() => this.way() === way, { what: `to be published ${way}` })
  }

  /** Twice, so that one look began after this was called. */
  async looked(times = 2): Promise<void> {
    const seen = () => this.agent.api.lookups
    const before = seen()
    await eventually(() => seen() >= before + times, { what: 'looks at the Service' })
  }

  /** Twice, so that one look began after this was called. */
  async readCrds(): Promise<void> {
    const seen = () => this.agent.api.schemasAsked
    const before = seen()
    await eventually(() => seen() >= before + 2, { what: 'looks at the CRDs' })
  }
}

/** The gateway's, as far as publishing needs it. */
class OpenIngress implements Ingress {
  readonly port = 9443
  readonly pin = pin
  readonly state = { kind: 'open' } as const
  isDenied = false
  readonly told = new Map<string, string>()

  isTokenDenied(): boolean {
    return this.isDenied
  }

  set(key: string, how: 'beside' | 'alone' | undefined): void {
    this.told.set(key, how ?? 'not relayed')
  }

  forget(key: string): void {
    this.told.delete(key)
  }
}
