import { describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { publishedPorts, type PublishTarget } from '../../src/agent-core/publishing/objects.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { KubeHttp } from '../support/controller-stand-in/kube-http.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { startPublishing, type PublishingAgent } from './publishing-agent.ts'
import { clusterOf } from './publishing-cluster.ts'

const server = { address: '192.0.2.7', port: 53_211, ready: true }
const sliceOfType = z.object({
  addressType: z.string(),
  endpoints: z.array(z.object({ addresses: z.array(z.string()) })),
})
const skipMirror = 'endpointslice.kubernetes.io/skip-mirror'
const heartbeat = 'llmkube.ai/agent-heartbeat'

describe('publishing', () => {
  const world = useRealApiServer()

  test('claim, Service, endpoint: each object as LLMKube expects it, and nothing written twice', async () => {
    const cluster = clusterOf(world())
    await using agent = await startPublishing(world(), 'node-a')
    const target = await cluster.inferenceService('plain.model', 9_000)
    const { publisher } = agent

    expect(publisher.observe(target)).toMatchObject({ claim: { kind: 'absent' }, service: { kind: 'absent' } })
    await done(publisher.claim(target))
    expect(await cluster.get('endpointslices', 'plain-model')).toMatchObject({ addressType: 'IPv4', endpoints: null })
    await done(publisher.ensureService(target))
    await done(publisher.publish(target, server))
    expect(agent.api.takeRequests()).toEqual([
      'POST services (dry run)',
      'POST endpointslices',
      'POST services',
      'PATCH endpointslices',
      'GET endpoints',
      'APPLY endpoints',
    ])

    const metadata = {
      labels: {
        app: 'plain.model',
        'llmkube.ai/managed-by': 'metal-agent',
        'llmkube.ai/inference-service': 'plain.model',
      },
      ownerReferences: [
        {
          apiVersion: 'inference.llmkube.dev/v1alpha1',
          kind: 'InferenceService',
          name: 'plain.model',
          uid: target.uid,
          controller: false,
          blockOwnerDeletion: false,
        },
      ],
    }
    const ports = [
      { name: 'http', port: 53_211, protocol: 'TCP' },
      { name: 'endpoint', port: 53_211, protocol: 'TCP' },
    ]
    expect(await cluster.get('services', 'plain-model')).toMatchObject({
      metadata: {
        ...metadata,
        annotations: { 'llmkube.ai/metal-accelerated': 'true', 'llmkube.ai/native-process': 'true' },
      },
      spec: {
        type: 'ClusterIP',
        ports: [
          { name: 'http', port: 8080, protocol: 'TCP' },
          { name: 'endpoint', port: 9_000, protocol: 'TCP' },
        ],
      },
    })
    expect(await cluster.get('endpointslices', 'plain-model')).toMatchObject({
      metadata: {
        ...metadata,
        labels: { ...metadata.labels, 'kubernetes.io/service-name': 'plain-model' },
        annotations: {
          [heartbeat]: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/) as string,
          'llmkube.ai/agent-version': 'v0.0.1-test',
        },
      },
      endpoints: [
        {
          addresses: ['192.0.2.7'],
          conditions: { ready: true },
          targetRef: { kind: 'Pod', name: 'plain.model-metal' },
        },
      ],
      ports,
    })
    expect(await cluster.get('endpoints', 'plain-model')).toMatchObject({
      metadata: {
        ...metadata,
        labels: { ...metadata.labels, [skipMirror]: 'true', 'llmkube.dev/accelerator': 'metal' },
      },
      subsets: [{ addresses: [{ ip: '192.0.2.7' }] }],
    })
    expect(publisher.observe(target)).toEqual({
      claim: { kind: 'ours', epoch: 1 },
      service: { kind: 'ours' },
      serviceUpToDate: true,
      serviceIsOwn: true,
      serviceMendInMs: 0,
      complete: true,
      published: server,
      present: true,
      recheckInMs: undefined,
    })
  })

  test('what is already so costs no request, and is told once', async () => {
    const cluster = clusterOf(world())
    await using agent = await startPublishing(world(), 'node-a')
    const target = await cluster.inferenceService('quiet')
    await serve(agent, target)
    agent.api.takeRequests()
    for (let pass = 0; pass < 3; pass += 1) {
      await done(agent.publisher.claim(target))
      await done(agent.publisher.ensureService(target))
      await done(agent.publisher.publish(target, server))
    }
    await done(agent.publisher.withdraw(target))
    agent.api.takeRequests()
    await done(agent.publisher.withdraw(target))
    expect(agent.api.takeRequests()).toEqual([])
    expect(agent.infos).toEqual(['registered endpoint', 'withdrew endpoint'])
  })

  test('stopping takes slice and Endpoints away and keeps the Service; the end of the CR takes all', async () => {
    const cluster = clusterOf(world())
    await using agent = await startPublishing(world(), 'node-a')
    const target = await cluster.inferenceService('stops')
    const { publisher } = agent
    await serve(agent, target)
    const { spec: before } = await cluster.get('services', 'stops')

    await done(publisher.withdraw(target))
    expect(publisher.observe(target)).toMatchObject({ published: { ...server, ready: false }, complete: true })
    expect(await cluster.get('endpoints', 'stops')).toMatchObject({
      subsets: [{ notReadyAddresses: [{ ip: '192.0.2.7' }] }],
    })
    agent.api.takeRequests()
    await done(publisher.unpublish(target))
    expect(agent.api.takeRequests()).toEqual(['GET endpoints', 'DELETE endpoints', 'DELETE endpointslices'])
    expect(publisher.observe(target)).toMatchObject({
      claim: { kind: 'absent' },
      service: { kind: 'ours' },
      present: false,
    })
    expect(await cluster.kindsOf('stops')).toEqual(['services'])

    await serve(agent, target)
    expect((await cluster.get('services', 'stops')).spec).toMatchObject({
      clusterIP: (before as { clusterIP: string }).clusterIP,
    })
    await done(publisher.remove(target))
    expect(await cluster.kindsOf('stops')).toEqual([])
    agent.api.takeRequests()
    await done(publisher.unpublish(target))
    await done(publisher.remove(target))
    expect(agent.api.takeRequests()).toEqual([])
  })

  test('an address of IPv6 is in a slice of its type, which takes the place of the one before, and the claim stays', async () => {
    const cluster = clusterOf(world())
    await using agent = await startPublishing(world(), 'node-a')
    await using other = await startPublishing(world(), 'node-b')
    const target = await cluster.inferenceService('six')
    await serve(agent, target)
    const typeAndAddress = async () => {
      const { addressType, endpoints } = sliceOfType.parse(await cluster.get('endpointslices', 'six'))
      return [addressType, ...endpoints.flatMap(({ addresses }) => addresses)]
    }
    await done(agent.publisher.publish(target, { ...server, address: 'fd00::20' }))
    expect(await typeAndAddress()).toEqual(['IPv6', 'fd00::20'])
    expect(await cluster.get('endpoints', 'six')).toMatchObject({ subsets: [{ addresses: [{ ip: 'fd00::20' }] }] })
    expect(agent.publisher.observe(target)).toMatchObject({ claim: { kind: 'ours', epoch: 1 }, complete: true })
    // Of one type no slice is made again.
    agent.api.takeRequests()
    await done(agent.publisher.publish(target, { ...server, address: 'fd00::21' }))
    expect(agent.api.takeRequests()).toEqual(['PATCH endpointslices', 'APPLY endpoints'])
    await done(agent.publisher.publish(target, server))
    expect(await typeAndAddress()).toEqual(['IPv4', '192.0.2.7'])
    await eventually(() => other.publisher.observe(target).claim.kind === 'foreign')
  })

  test('of two agents that claim at the same moment exactly one wins, whatever the order', async () => {
    const cluster = clusterOf(world())
    await using a = await startPublishing(world(), 'node-a')
    await using b = await startPublishing(world(), 'node-b')
    for (let round = 0; round < 10; round += 1) {
      const target = await cluster.inferenceService(`race-${round}`)
      const results = await Promise.all([a, b].map(({ publisher }) => publisher.claim(target)))
      expect(results.map(({ kind }) => kind).toSorted()).toEqual(['done', 'lost'])
      await eventually(() => [a, b].every(({ slices }) => slices.get(target.namespace, target.name)))
      const claims = [a, b].map(({ publisher }) => publisher.observe(target).claim.kind)
      expect(claims).toEqual(results.map(({ kind }) => (kind === 'done' ? 'ours' : 'foreign')))
    }
  })

  test('a slice deleted under its holder is posted again at once; others leave it the first try', async () => {
    const cluster = clusterOf(world())
    await using a = await startPublishing(world(), 'node-a')
    await using b = await startPublishing(world(), 'node-b')
    const target = await cluster.inferenceService('torn')
    await serve(a, target)
    await eventually(() => b.publisher.observe(target).claim.kind === 'foreign')

    await cluster.delete('endpointslices', 'torn')
    await eventually(() => b.slices.get(target.namespace, 'torn') === undefined)
    expect(b.publisher.observe(target).claim).toMatchObject({
      kind: 'foreign',
      deadInMs: 10_000,
      message: `The EndpointSlice of InferenceService ${target.namespace}/torn is gone; for 10 s only node-a.local, which held it, may take it again.`,
    })
    expect(await b.publisher.claim(target)).toMatchObject({ kind: 'lost' })
    expect(await a.publisher.publish(target, server)).toEqual({ kind: 'done' })
    await eventually(() => b.publisher.observe(target).published)
    expect(b.publisher.observe(target)).toMatchObject({
      claim: { kind: 'foreign', holder: 'node-a.local' },
      published: server,
    })

    await cluster.delete('endpointslices', 'torn')
    await eventually(() => b.slices.get(target.namespace, 'torn') === undefined)
    b.publisher.observe(target)
    b.clock.now += 10_000
    expect(b.publisher.observe(target).claim).toEqual({ kind: 'absent' })
    await done(b.publisher.claim(target))
  })

  test('writing over by an agent that knows no claims is noticed, counted, and never answered in kind', async () => {
    const cluster = clusterOf(world())
    await using agent = await startPublishing(world(), 'node-a')
    const target = await cluster.inferenceService('fought')
    await serve(agent, target)
    await cluster.goAgentWrites('fought', '2026-01-01T00:00:00Z')
    const first = await eventually(() => overwritten(agent, target))
    agent.api.takeRequests()
    expect(await agent.publisher.publish(target, server)).toMatchObject({ kind: 'lost' })
    expect(await agent.publisher.claim(target)).toMatchObject({ kind: 'lost' })
    expect(agent.api.takeRequests()).toEqual([])
    expect(first.message).toBe(
      `InferenceService ${target.namespace}/fought is claimed here but the agent at 192.0.2.99, which does not know about claims, overwrote it; this machine takes over when that agent has been silent for 180 s. Leave fought out of its --inference-service-allowlist.`,
    )
    expect(await cluster.get('endpointslices', 'fought')).toMatchObject({ endpoints: [{ addresses: ['192.0.2.99'] }] })

    agent.clock.now += 180_000
    expect(agent.publisher.observe(target).claim).toMatchObject({ kind: 'dead', epoch: 1 })
    await done(agent.publisher.takeOver(target))
    expect(agent.publisher.observe(target)).toMatchObject({ claim: { kind: 'ours', epoch: 2 }, published: undefined })
  })

  test('a claim is taken over after 180 s of silence, by one agent, and the late holder learns it', async () => {
    const cluster = clusterOf(world())
    await using holder = await startPublishing(world(), 'node-a')
    await using b = await startPublishing(world(), 'node-b')
    await using c = await startPublishing(world(), 'node-c')
    const target = await cluster.inferenceService('left')
    await serve(holder, target)
    for (const heir of [b, c]) await eventually(() => heir.publisher.observe(target).published?.ready)

    for (const heir of [b, c]) heir.clock.now += 179_999
    expect(b.publisher.observe(target)).toMatchObject({ claim: { kind: 'foreign', deadInMs: 1 }, recheckInMs: 1 })
    expect(await b.publisher.takeOver(target)).toMatchObject({ kind: 'lost' })
    for (const heir of [b, c]) heir.clock.now += 1
    expect(b.publisher.observe(target).claim).toMatchObject({ kind: 'dead', ready: true })
    const results = await Promise.all([b, c].map(({ publisher }) => publisher.takeOver(target)))
    expect(results.map(({ kind }) => kind).toSorted()).toEqual(['done', 'lost'])

    expect(await cluster.get('endpointslices', 'left')).toMatchObject({ endpoints: null })
    expect((await cluster.get('endpoints', 'left'))['subsets'] ?? []).toEqual([])
    expect(await holder.publisher.publish(target, { ...server, port: 4 })).toMatchObject({ kind: 'lost' })
    expect(holder.publisher.observe(target).claim).toMatchObject({ kind: 'foreign' })
  })

  test('whoever sees a dead claim takes its address out of service without claiming it, as often as it is made ready again', async () => {
    const cluster = clusterOf(world())
    await using holder = await startPublishing(world(), 'node-a')
    await using other = await startPublishing(world(), 'node-b')
    const target = await cluster.inferenceService('hole')
    await serve(holder, target)
    await eventually(() => other.publisher.observe(target).published?.ready)
    await done(other.publisher.withdrawDead(target))
    expect(other.publisher.observe(target).published).toEqual(server)
    other.clock.now += 180_000
    await done(other.publisher.withdrawDead(target))
    expect(other.publisher.observe(target)).toMatchObject({
      claim: { kind: 'dead', ready: false },
      published: { ...server, ready: false },
    })
    other.api.takeRequests()
    await done(other.publisher.withdrawDead(target))
    expect(other.api.takeRequests()).toEqual(['GET endpointslices'])

    for (let time = 1; time <= 4; time += 1) {
      const endpoints = [{ addresses: [server.address], conditions: { ready: true } }]
      await cluster.patch('endpointslices', 'hole', { endpoints })
      await eventually(() => other.publisher.observe(target).published?.ready)
      expect('mendInMs' in other.publisher.observe(target).claim, `the ${time}. time`).toBe(time === 4)
      await done(other.publisher.withdrawDead(target))
    }
  })

  test('a gap in the watch starts the 180 s over', async () => {
    const cluster = clusterOf(world())
    await using holder = await startPublishing(world(), 'node-a')
    await using other = await startPublishing(world(), 'node-b')
    const target = await cluster.inferenceService('gap')
    await serve(holder, target)
    await eventually(() => other.publisher.observe(target).published?.ready)
    other.clock.now += 179_000
    other.publisher.watchGap()
    other.clock.now += 179_000
    expect(other.publisher.observe(target).claim).toMatchObject({ kind: 'foreign', deadInMs: 1_000 })
  })

  test('while the watch is down no holder is silent, and what it was silent before counts afterwards', async () => {
    const cluster = clusterOf(world())
    await using holder = await startPublishing(world(), 'node-a')
    await using other = await startPublishing(world(), 'node-b')
    const target = await cluster.inferenceService('deaf')
    await serve(holder, target)
    await eventually(() => other.publisher.observe(target).published?.ready)
    other.clock.now += 100_000
    other.publisher.setWatchLive(false)
    other.clock.now += 400_000
    expect(other.publisher.observe(target).claim).toMatchObject({ kind: 'foreign', deadInMs: 180_000 })
    other.publisher.setWatchLive(true)
    expect(other.publisher.observe(target).claim).toMatchObject({ kind: 'foreign', deadInMs: 80_000 })
  })

  test('a released claim is free for another agent at once', async () => {
    const cluster = clusterOf(world())
    await using a = await startPublishing(world(), 'node-a')
    await using b = await startPublishing(world(), 'node-b')
    const target = await cluster.inferenceService('handed')
    await serve(a, target)
    await eventually(() => b.publisher.observe(target).claim.kind === 'foreign')
    expect(await a.publisher.releaseAll()).toEqual([])
    expect(await cluster.get('endpointslices', 'handed')).toMatchObject({
      metadata: {
        annotations: {
          'metalbar.dev/claim': expect.stringMatching(/^{"heartbeat":"[^"]+","releasedBy":"node-a"}$/) as string,
        },
      },
      endpoints: [{ conditions: { ready: false } }],
    })
    expect(await cluster.get('endpoints', 'handed')).toMatchObject({ subsets: [{ notReadyAddresses: [{}] }] })
    await eventually(() => b.publisher.observe(target).claim.kind === 'released')
    await serve(b, target)
    expect(b.publisher.observe(target)).toMatchObject({ claim: { kind: 'ours' }, published: server })
    await eventually(() => a.publisher.observe(target).claim.kind === 'foreign')
  })

  test('a restarted agent finds its claim, renews it, and brings the Endpoints up to date', async () => {
    const cluster = clusterOf(world())
    const target = await cluster.inferenceService('again')
    {
      await using first = await startPublishing(world(), 'node-a')
      await serve(first, target)
      await done(first.publisher.withdraw(target))
    }
    const { metadata: before } = await cluster.get('endpointslices', 'again')
    await using second = await startPublishing(world(), 'node-a', { renewEveryMs: 1 })
    expect(second.publisher.observe(target)).toMatchObject({
      claim: { kind: 'ours', epoch: 1 },
      published: { ...server, ready: false },
      complete: false,
    })
    await eventually(() => second.publisher.observe(target).complete)
    // Heartbeats have whole seconds.
    const after = await eventually(async () => {
      const { metadata } = await cluster.get('endpointslices', 'again')
      return metadata.resourceVersion === before.resourceVersion ? undefined : metadata
    })
    expect(after.uid).toBe(before.uid)
  })

  test('claims are renewed, also before there is a server, and heal what was taken from them', async () => {
    const cluster = clusterOf(world())
    await using agent = await startPublishing(world(), 'node-a', { renewEveryMs: 20 })
    const target = await cluster.inferenceService('beats')
    await done(agent.publisher.claim(target))
    await cluster.patch('endpointslices', 'beats', { metadata: { labels: { app: null } } })
    await eventually(async () => (await cluster.get('endpointslices', 'beats')).metadata.labels?.['app'] === 'beats')
    await cluster.delete('endpointslices', 'beats')
    const slice = await eventually(() => cluster.find('endpointslices', 'beats'))
    const claim = JSON.parse(slice.metadata.annotations?.['metalbar.dev/claim'] ?? '') as object
    expect(claim).toEqual({
      node: 'node-a',
      epoch: 1,
      heartbeat: slice.metadata.annotations?.[heartbeat],
      displayName: 'node-a.local',
    })
  })

  test('what the watch brings back of our own writes is not read again', async () => {
    const cluster = clusterOf(world())
    await using agent = await startPublishing(world(), 'node-a')
    const target = await cluster.inferenceService('echoed')
    const before = agent.slicesRead()
    await serve(agent, target)
    // A watch keeps the order: with this all that was written before has come.
    const catchUp = async (marker: string) => {
      await cluster.goAgentCreates(marker)
      await eventually(() => agent.slices.get(target.namespace, marker))
    }
    await catchUp('later')
    for (const port of [1, 2, 3]) {
      await done(agent.publisher.publish(target, { ...server, port }))
      await catchUp(`later-${port}`)
    }
    const writes = agent.api.takeRequests().filter((request) => request.endsWith(' endpointslices'))
    expect(agent.slicesRead() - before).toBe(writes.length + 4)
  })

  test('renewals leave the Endpoints with the ports of the last publication', async () => {
    const cluster = clusterOf(world())
    await using agent = await startPublishing(world(), 'node-a', { renewEveryMs: 20 })
    const target = await cluster.inferenceService('ported')
    await serve(agent, target)
    await done(agent.publisher.publish({ ...target, endpointPort: 9_000 }, server))
    agent.api.takeRequests()
    const renewals: string[] = []
    await eventually(() => renewals.push(...agent.api.takeRequests()) >= 5)
    expect(new Set(renewals)).toEqual(new Set(['PATCH endpointslices']))
  })

  test('a CR re-created under another uid gets a new slice and new Endpoints, and keeps the Service', async () => {
    const cluster = clusterOf(world())
    await using agent = await startPublishing(world(), 'node-a')
    const first = await cluster.inferenceService('reborn')
    await serve(agent, first)
    const before = await cluster.uidsOf('reborn')
    await cluster.delete('inferenceservices', 'reborn')
    const second = await cluster.inferenceService('reborn')

    expect(agent.publisher.observe(second)).toMatchObject({ claim: { kind: 'previous' }, serviceUpToDate: false })
    await serve(agent, second)
    const after = await cluster.uidsOf('reborn')
    expect([after.services === before.services, after.endpointslices === before.endpointslices]).toEqual([true, false])
    expect(after.endpoints).not.toBe(before.endpoints)
    for (const kind of ['services', 'endpointslices', 'endpoints'] as const) {
      expect((await cluster.get(kind, 'reborn')).metadata.ownerReferences).toMatchObject([{ uid: second.uid }])
    }
    await done(agent.publisher.remove(first))
    expect(await cluster.uidsOf('reborn')).toEqual(after)
  })

  test('what has gone to another InferenceService of the same Service name is left to it, and nothing is left to be removed', async () => {
    const cluster = clusterOf(world())
    await using agent = await startPublishing(world(), 'node-a')
    const dotted = await cluster.inferenceService('to.be')
    await serve(agent, dotted)
    for (const kind of await cluster.kindsOf('to-be')) await cluster.delete(kind, 'to-be')
    await eventually(() => agent.publisher.observe(dotted).claim.kind === 'absent')
    const dashed = await cluster.inferenceService('to-be')
    await serve(agent, dashed)
    const after = await cluster.uidsOf('to-be')

    await done(agent.publisher.remove(dotted))
    expect(agent.publisher.observe(dotted).present).toBe(false)
    expect(await cluster.uidsOf('to-be')).toEqual(after)
    expect(agent.publisher.observe(dashed)).toMatchObject({ complete: true, present: true, published: server })
  })

  test('a Service of somebody else is never touched: nothing is published beside it, until it is gone', async () => {
    const cluster = clusterOf(world())
    await using agent = await startPublishing(world(), 'node-a')
    const target = await cluster.inferenceService('taken')
    await cluster.create('services', {
      metadata: { name: 'taken' },
      spec: { selector: { app: 'x' }, ports: [{ port: 80 }] },
    })
    const { metadata } = await cluster.get('services', 'taken')
    const message = `Service ${target.namespace}/taken has the name this InferenceService needs but selects Pods of its own; delete it (kubectl -n ${target.namespace} delete service taken) or rename the InferenceService.`
    expect(await agent.publisher.claim(target)).toEqual({ kind: 'taken', message })
    expect(agent.publisher.observe(target)).toMatchObject({ service: { kind: 'taken', message }, recheckInMs: 60_000 })
    expect(await cluster.kindsOf('taken')).toEqual(['services'])
    await done(agent.publisher.remove(target))
    expect((await cluster.get('services', 'taken')).metadata.resourceVersion).toBe(metadata.resourceVersion)

    await cluster.delete('services', 'taken')
    agent.clock.now += 60_000
    expect(agent.publisher.observe(target).service).toEqual({ kind: 'absent' })
    await serve(agent, target)
  })

  test('a slice of nobody we know is left alone', async () => {
    const cluster = clusterOf(world())
    await using agent = await startPublishing(world(), 'node-a')
    const target = await cluster.inferenceService('stray')
    await cluster.create('endpointslices', { metadata: { name: 'stray' }, addressType: 'IPv4', endpoints: [] })
    const result = await agent.publisher.claim(target)
    expect(result).toEqual({
      kind: 'taken',
      message: `EndpointSlice ${target.namespace}/stray has the name this InferenceService needs but was not made by an agent; delete it or rename the InferenceService.`,
    })
    expect(agent.publisher.observe(target)).toMatchObject({ claim: result, present: false })
  })

  test("a Go agent's leftovers are adopted without wiping what others added", async () => {
    const cluster = clusterOf(world())
    await using agent = await startPublishing(world(), 'node-a')
    const target = await cluster.inferenceService('old')
    await cluster.goAgentCreates('old')
    await eventually(() => agent.publisher.observe(target).claim.kind === 'unclaimed')
    agent.clock.now += 180_000
    await done(agent.publisher.takeOver(target))
    await serve(agent, target)
    const labels = { 'llmkube.ai/managed-by': 'metal-agent' }
    expect(await cluster.get('services', 'old')).toMatchObject({
      metadata: { labels: { ...labels, team: 'x' }, annotations: { 'example.com/theirs': 'kept' } },
    })
    expect(await cluster.get('endpoints', 'old')).toMatchObject({
      metadata: { labels: { ...labels, [skipMirror]: 'true' } },
      subsets: [{ addresses: [{ ip: server.address }] }],
    })
    expect(agent.publisher.observe(target)).toMatchObject({ claim: { kind: 'ours', epoch: 1 }, published: server })
  })

  test('Endpoints of somebody else are left alone, spoken of once, and looked at again after five minutes', async () => {
    const cluster = clusterOf(world())
    await using agent = await startPublishing(world(), 'node-a')
    const target = await cluster.inferenceService('theirs')
    await cluster.create('endpoints', {
      metadata: { name: 'theirs' },
      subsets: [{ addresses: [{ ip: '192.0.2.50' }], ports: [{ port: 1 }] }],
    })
    await serve(agent, target)
    agent.api.takeRequests()
    for (let minute = 0; minute < 11; minute += 1) {
      await done(agent.publisher.publish(target, { ...server, port: 4 + minute }))
      agent.clock.now += 60_000
    }
    expect(agent.api.takeRequests().filter((request) => request.endsWith(' endpoints'))).toEqual([
      'GET endpoints',
      'GET endpoints',
    ])
    expect(await cluster.get('endpoints', 'theirs')).toMatchObject({ subsets: [{ addresses: [{ ip: '192.0.2.50' }] }] })
    expect(agent.warnings.map(({ message }) => message)).toEqual(['Endpoints left alone'])
    expect(agent.publisher.observe(target).complete).toBe(true)
  })

  test('what the server refuses is answered in its words, before anything is claimed', async () => {
    const cluster = clusterOf(world())
    await using agent = await startPublishing(world(), 'node-a')
    const long = await cluster.inferenceService('a'.repeat(70))
    expect(await agent.publisher.claim(long)).toMatchObject({
      kind: 'refused',
      message: expect.stringContaining('must be no more than 63') as string,
    })
    expect(agent.publisher.observe(long)).toMatchObject({ service: { kind: 'refused' }, claim: { kind: 'absent' } })
    expect(await cluster.find('endpointslices', 'a'.repeat(70))).toBeUndefined()

    const target = await cluster.inferenceService('looped')
    await done(agent.publisher.claim(target))
    await done(agent.publisher.ensureService(target))
    await expect(agent.publisher.publish(target, { ...server, address: '127.0.0.1' })).rejects.toMatchObject({
      code: 422,
      message: expect.stringContaining('loopback') as string,
    })
    expect(agent.publisher.observe(target)).toMatchObject({ claim: { kind: 'ours' }, published: undefined })
  })

  test('without rights to Endpoints the slice is published all the same', async () => {
    const cluster = clusterOf(world())
    const verbs = ['get', 'list', 'watch', 'create', 'patch', 'delete']
    const { connection } = await world().restricted([
      { apiGroups: [''], resources: ['services'], verbs },
      { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs },
    ])
    await using agent = await startPublishing({ connection, namespace: world().namespace }, 'node-a')
    const target = await cluster.inferenceService('narrow')
    await serve(agent, target)
    expect(agent.publisher.observe(target)).toMatchObject({ published: server, complete: true })
    expect(agent.warnings.map(({ message }) => message)).toEqual(['Endpoints left alone'])
    await done(agent.publisher.unpublish(target))
  })
})

describe('publishing when the cluster misbehaves', () => {
  test('a write whose answer got lost is recognised as ours', async () => {
    await using room = await publishingInSimulation()
    const { sim, cluster, agent } = room
    const target = await cluster.inferenceService('lossy')
    await done(agent.publisher.claim(target))
    await done(agent.publisher.ensureService(target))
    sim.faults.add({ on: { verb: 'patch', resource: 'endpointslices' }, fault: { kind: 'reset-after' } })
    await expect(agent.publisher.publish(target, server)).rejects.toMatchObject({ name: 'ApiError' })
    await eventually(() => agent.publisher.observe(target).published)
    expect(agent.publisher.observe(target)).toMatchObject({ claim: { kind: 'ours' }, published: server })
    await done(agent.publisher.publish(target, server))
    // Nor are any number of them edits by others.
    for (const port of [1, 2, 3, 4]) {
      sim.faults.add({ on: { verb: 'patch', resource: 'endpointslices' }, fault: { kind: 'reset-after' } })
      await expect(agent.publisher.publish(target, { ...server, port })).rejects.toMatchObject({ name: 'ApiError' })
      await eventually(() => agent.publisher.observe(target).published?.port === port)
      expect(agent.publisher.observe(target).claim).toEqual({ kind: 'ours', epoch: 1 })
      await done(agent.publisher.publish(target, server))
    }

    sim.faults.add({ on: { verb: 'create', resource: 'endpointslices' }, fault: { kind: 'reset-after' } })
    const second = await cluster.inferenceService('lossy-claim')
    await expect(agent.publisher.claim(second)).rejects.toMatchObject({ name: 'ApiError' })
    await eventually(() => agent.publisher.observe(second).claim.kind === 'ours')
  })

  test('after 150 s without a renewal the claim is uncertain, and sure again with the first success', async () => {
    await using room = await publishingInSimulation({ renewEveryMs: 20 })
    const { sim, cluster, agent } = room
    const target = await cluster.inferenceService('cut')
    await serve(agent, target)
    const outage = sim.faults.add({
      on: { resource: 'endpointslices', verb: ['get', 'patch', 'create'] },
      times: Infinity,
      fault: { kind: 'status', code: 503 },
    })
    await eventually(() => outage.hits > 2)
    expect([agent.publisher.observe(target).claim.kind, agent.changed]).toEqual(['ours', []])
    expect(new Set(agent.api.takeRequests()).has('GET endpointslices')).toBe(false)
    agent.clock.now += 150_000
    await eventually(() => agent.changed.length > 0)
    expect(agent.publisher.observe(target)).toMatchObject({ claim: { kind: 'uncertain', epoch: 1 }, published: server })
    outage.remove()
    await eventually(() => agent.publisher.observe(target).claim.kind === 'ours')
    expect(agent.api.takeRequests()).toEqual(expect.arrayContaining(['GET endpointslices', 'PATCH endpointslices']))
    await eventually(() => agent.changed.length === 2)
  })

  test('a write that the server refuses is a failure: nothing is held to be said, and the end waits for its limit', async () => {
    await using room = await publishingInSimulation({ renewEveryMs: 20 })
    const { sim, cluster, agent } = room
    const target = await cluster.inferenceService('refused')
    await serve(agent, target)
    const invalid = { kind: 'status', code: 422, reason: 'Invalid', message: 'not by this webhook' } as const
    const refused = sim.faults.add({
      on: { verb: 'patch', resource: 'endpointslices' },
      times: Infinity,
      fault: invalid,
    })
    await expect(agent.publisher.withdraw(target)).rejects.toMatchObject({ code: 422 })
    expect(agent.publisher.observe(target)).toMatchObject({ claim: { kind: 'ours' }, published: { ready: true } })
    await eventually(() => agent.warnings.some(({ message }) => message === 'heartbeat failed'))
    agent.clock.now += 150_000
    await eventually(() => agent.publisher.observe(target).claim.kind === 'uncertain')
    expect(await agent.publisher.withdrawAll(1_200)).toMatchObject([
      { key: 'default/refused', message: expect.stringContaining('not by this webhook') as string },
    ])
    const withdrawn = agent.publisher.withdrawAll(30_000)
    refused.remove()
    expect(await withdrawn).toEqual([])
    expect(agent.publisher.observe(target).published).toEqual({ ...server, ready: false })
  })

  test('a Service that cannot be written holds up neither publication nor withdrawal, and its target port is nobody’s business', async () => {
    await using room = await publishingInSimulation()
    const { sim, cluster, agent } = room
    const target = await cluster.inferenceService('walled')
    await done(agent.publisher.claim(target))
    sim.faults.add({
      on: { resource: 'services' },
      times: Infinity,
      fault: { kind: 'status', code: 422, reason: 'Invalid', message: 'no' },
    })
    await expect(agent.publisher.ensureService(target)).rejects.toMatchObject({ code: 422 })
    await done(agent.publisher.publish(target, server))
    await done(agent.publisher.withdraw(target))
    sim.faults.clear()
    await done(agent.publisher.ensureService(target))
    agent.api.takeRequests()
    await done(agent.publisher.publish(target, { ...server, port: 53_212 }))
    expect(agent.publisher.observe(target).serviceUpToDate).toBe(true)
    expect(agent.api.takeRequests()).not.toContain('PATCH services')
  })

  test.each(['services', 'endpoints'])(
    '%s that the cluster does not answer to hold up no withdrawal of the slice',
    async (resource) => {
      await using room = await publishingInSimulation()
      const { sim, cluster, agent } = room
      const target = await cluster.inferenceService('hanging')
      await done(agent.publisher.claim(target))
      const stalled = sim.faults.add({ on: { resource, verb: ['create', 'patch'] }, fault: { kind: 'stall' } })
      const writes = [agent.publisher.publish(target, server), agent.publisher.ensureService(target)]
      await eventually(() => stalled.hits > 0)
      let areAnswered = false
      const answered = Promise.allSettled(writes).then(() => (areAnswered = true))
      const withdrawn = agent.publisher.withdraw(target)
      await eventually(() => agent.publisher.observe(target).published?.ready === false)
      expect(areAnswered).toBe(false)
      await agent.publisher[Symbol.asyncDispose]()
      await Promise.allSettled([answered, withdrawn])
    },
  )

  test('what others change in a slice is put right three times in 30 s', async () => {
    await using room = await publishingInSimulation()
    const { cluster, agent } = room
    const target = await cluster.inferenceService('edited')
    await serve(agent, target)
    const seen = () => agent.publisher.observe(target)
    for (const port of [1, 2, 3]) {
      await cluster.patch('endpointslices', 'edited', { ports: [{ name: 'http', port, protocol: 'TCP' }] })
      await eventually(() => seen().published?.port === port)
      expect(seen().claim).toEqual({ kind: 'ours', epoch: 1 })
      await done(agent.publisher.publish(target, server))
    }
    await cluster.patch('endpointslices', 'edited', { metadata: { annotations: { 'metalbar.dev/claim': null } } })
    await eventually(() => seen().claim.kind === 'ours')
    await cluster.patch('endpointslices', 'edited', { ports: [{ name: 'http', port: 4, protocol: 'TCP' }] })
    await eventually(() => seen().published?.port === 4)
    expect(seen().claim).toEqual({ kind: 'ours', epoch: 1, mendInMs: 30_000 })
    agent.clock.now += 30_000
    expect(seen().claim).toEqual({ kind: 'ours', epoch: 1 })
    await done(agent.publisher.publish(target, server))
    agent.clock.now += 600_000
    agent.publisher.watchGap()
    expect(seen().claim.kind).not.toBe('foreign')
  })

  test('Endpoints that others change or delete are applied again after five minutes, and so is what was refused', async () => {
    await using room = await publishingInSimulation({ renewEveryMs: 20 })
    const { sim, cluster, agent } = room
    const target = await cluster.inferenceService('legacy')
    const forbidden = sim.faults.add({
      on: { resource: 'endpoints' },
      times: Infinity,
      fault: { kind: 'status', code: 403, reason: 'Forbidden', message: 'not yet' },
    })
    await serve(agent, target)
    expect(agent.warnings.map(({ message }) => message)).toEqual(['Endpoints left alone'])
    const { hits } = forbidden
    const renewals = async (atLeast: number) => {
      const seen: string[] = []
      await eventually(() => seen.push(...agent.api.takeRequests()) >= atLeast)
    }
    await renewals(3)
    expect(forbidden.hits).toBe(hits)
    forbidden.remove()
    const later = async () => {
      agent.clock.now += 300_000
      // The claim was not renewed for so long by this clock.
      await eventually(() => agent.publisher.observe(target).claim.kind === 'ours')
    }
    await later()
    await eventually(() => cluster.find('endpoints', 'legacy'))
    await cluster.delete('endpoints', 'legacy')
    await renewals(3)
    expect(await cluster.find('endpoints', 'legacy')).toBeUndefined()
    await later()
    await eventually(() => cluster.find('endpoints', 'legacy'))
    const subsets = [{ addresses: [{ ip: '192.0.2.99' }], ports: [{ port: 1 }] }]
    await cluster.patch('endpoints', 'legacy', { subsets })
    await later()
    await eventually(async () => {
      expect((await cluster.get('endpoints', 'legacy'))['subsets']).toMatchObject([
        { addresses: [{ ip: server.address }] },
      ])
      return true
    })
    expect(agent.warnings).toHaveLength(1)
  })

  test('Endpoints are written with the next try where credentials had expired', async () => {
    await using room = await publishingInSimulation()
    const { sim, cluster, agent } = room
    const target = await cluster.inferenceService('expired')
    sim.faults.add({ on: { resource: 'endpoints' }, times: Infinity, fault: { kind: 'status', code: 401 } })
    await expect(serve(agent, target)).rejects.toMatchObject({ code: 401 })
    sim.faults.clear()
    await serve(agent, target)
    expect(await cluster.find('endpoints', 'expired')).toBeDefined()
  })

  test('Endpoints whose removal fails are removed with the next try', async () => {
    await using room = await publishingInSimulation()
    const { sim, cluster, agent } = room
    const target = await cluster.inferenceService('sticky')
    await serve(agent, target)
    sim.faults.add({
      on: { resource: 'endpoints', verb: 'delete' },
      times: Infinity,
      fault: { kind: 'status', code: 500, reason: 'InternalError', message: 'no' },
    })
    await expect(agent.publisher.unpublish(target)).rejects.toMatchObject({ code: 500 })
    expect(await cluster.find('endpointslices', 'sticky')).toBeDefined()
    sim.faults.clear()
    await done(agent.publisher.unpublish(target))
    expect(await cluster.find('endpoints', 'sticky')).toBeUndefined()
  })

  test('Endpoints are kept as the last publication wants them, also where that waited for its turn behind another', async () => {
    await using room = await publishingInSimulation({ renewEveryMs: 20 })
    const { cluster, agent } = room
    const target = await cluster.inferenceService('late')
    await serve(agent, target)
    const applied = vi.spyOn(agent.api, 'apply')
    const patch = agent.api.mergePatch.bind(agent.api)
    const gate = Promise.withResolvers<undefined>()
    const patches = vi.spyOn(agent.api, 'mergePatch').mockImplementation(async (...parameters) => {
      await gate.promise
      return patch(...parameters)
    })
    const moved = { ...target, endpointPort: 9_000 }
    await eventually(() => patches.mock.calls.length > 0)
    const published = agent.publisher.publish(moved, server)
    gate.resolve(undefined)
    await done(published)
    await eventually(() => patches.mock.calls.length > 3)
    expect(applied.mock.calls.map(([, , , body]) => body)).toMatchObject([
      { subsets: [{ ports: [{}, { name: 'endpoint' }] }] },
    ])
  })

  test.each(['app', 'llmkube.ai/managed-by'])(
    'a Service of which a webhook changes the label %s in every answer is put right three times in 30 s',
    async (label) => {
      await using room = await publishingInSimulation()
      const { cluster, agent } = room
      const target = await cluster.inferenceService('hooked')
      changeInFlight(agent, 'services', { metadata: { labels: { [label]: 'another' } } })
      await serve(agent, target)
      agent.api.takeRequests()
      const seen = () => agent.publisher.observe(target)
      const mendAll = async (wanted = target) => {
        for (let pass = 0; pass < 20; pass += 1) await done(agent.publisher.ensureService(wanted))
        return agent.api.takeRequests().filter((request) => request === 'PATCH services')
      }
      expect(await mendAll()).toHaveLength(3)
      expect(seen()).toMatchObject({ serviceUpToDate: false, serviceMendInMs: 30_000 })
      agent.clock.now += 30_000
      expect(await mendAll()).toHaveLength(3)
      // A changed target does not wait.
      expect(await mendAll({ ...target, endpointPort: 9_000 })).toHaveLength(1)
      vi.restoreAllMocks()
      agent.clock.now += 30_000
      expect(await mendAll()).toHaveLength(1)
      agent.clock.now += 30_000
      expect(seen()).toMatchObject({ serviceUpToDate: true, serviceMendInMs: 0 })
    },
  )

  test('what the service itself changes about its ports is nobody else’s edit', async () => {
    await using room = await publishingInSimulation()
    const { cluster, agent } = room
    const target = await cluster.inferenceService('moving')
    await serve(agent, target)
    for (const endpointPort of [9_001, undefined, 9_002, undefined, 9_003, undefined]) {
      const moved = { ...target, endpointPort }
      expect(agent.publisher.observe(moved).claim).toEqual({ kind: 'ours', epoch: 1 })
      await done(agent.publisher.publish(moved, server))
      expect(agent.publisher.observe(moved).claim).toEqual({ kind: 'ours', epoch: 1 })
    }
  })

  test('a claim is free for others only when its Endpoints send nobody here any more', async () => {
    await using sim = await KubeSim.start({ garbageCollection: false })
    const cluster = clusterOf({ namespace: 'default', http: new KubeHttp(sim.connection()) })
    const on = { connection: sim.connection(), namespace: 'default' }
    const target = await cluster.inferenceService('freed')
    {
      await using first = await startPublishing(on, 'node-a')
      await serve(first, target)
    }
    // It knows nothing of the Endpoints that its predecessor wrote.
    await using agent = await startPublishing(on, 'node-a')
    const away = sim.faults.add({
      on: { resource: 'endpoints' },
      times: Infinity,
      fault: { kind: 'status', code: 503 },
    })
    await expect(agent.publisher.release(target)).rejects.toMatchObject({ code: 503 })
    expect(agent.publisher.observe(target)).toMatchObject({ claim: { kind: 'ours' }, published: { ready: false } })
    away.remove()
    await done(agent.publisher.release(target))
    expect(agent.publisher.observe(target).claim).toEqual({ kind: 'released' })
    expect(await cluster.get('endpoints', 'freed')).toMatchObject({ subsets: [{ notReadyAddresses: [{}] }] })
  })

  test('an agent that ends before it looked at its services withdraws what the one before it published', async () => {
    await using sim = await KubeSim.start({ garbageCollection: false })
    const cluster = clusterOf({ namespace: 'default', http: new KubeHttp(sim.connection()) })
    const on = { connection: sim.connection(), namespace: 'default' }
    const target = await cluster.inferenceService('inherited')
    {
      await using first = await startPublishing(on, 'node-a')
      await serve(first, target)
    }
    await using agent = await startPublishing(on, 'node-a')
    expect(await agent.publisher.withdrawAll()).toEqual([])
    expect(agent.publisher.observe(target)).toMatchObject({ claim: { kind: 'ours' }, published: { ready: false } })
    expect(await agent.publisher.releaseAll()).toEqual([])
    expect(agent.publisher.observe(target).claim).toEqual({ kind: 'released' })
  })

  test('Endpoints that are refused do not keep a claim from others', async () => {
    await using room = await publishingInSimulation()
    const { sim, cluster, agent } = room
    const target = await cluster.inferenceService('stuck')
    await serve(agent, target)
    sim.faults.add({ on: { resource: 'endpoints' }, times: Infinity, fault: { kind: 'status', code: 500 } })
    await done(agent.publisher.release(target))
    expect(agent.publisher.observe(target).claim).toEqual({ kind: 'released' })
    expect(agent.warnings.map(({ message }) => message)).toEqual(['Endpoints left alone'])
  })

  test('edits of a Service by others keep no agent from a claim that is free', async () => {
    await using room = await publishingInSimulation()
    const { cluster, agent } = room
    const target = await cluster.inferenceService('edited')
    await serve(agent, target)
    changeInFlight(agent, 'services', { metadata: { labels: { app: 'another' } } })
    await cluster.patch('services', 'edited', { metadata: { labels: { app: 'other' } } })
    await eventually(() => agent.services.get('default', 'edited')?.metadata.labels['app'] === 'other')
    for (let pass = 0; pass < 4; pass += 1) await done(agent.publisher.ensureService(target))
    expect(agent.publisher.observe(target).serviceMendInMs).toBe(30_000)
    await done(agent.publisher.release(target))
    await eventually(() => agent.publisher.observe(target).claim.kind === 'released')
    expect(agent.publisher.observe(target).recheckInMs).toBeUndefined()
  })

  test('the ports that pods are sent to are known until they are withdrawn', async () => {
    await using sim = await KubeSim.start({ garbageCollection: false })
    const cluster = clusterOf({ namespace: 'default', http: new KubeHttp(sim.connection()) })
    const on = { connection: sim.connection(), namespace: 'default' }
    await using agent = await startPublishing(on, 'node-a')
    const target = await cluster.inferenceService('shown')
    await serve(agent, target)
    const ports = (node: string, key: string) => {
      const { own, besides } = publishedPorts(key, node, agent.slices.values())
      return [own, ...besides]
    }
    expect([
      ports('node-a', 'default/other'),
      ports('node-a', 'default/shown'),
      ports('node-b', 'default/shown'),
    ]).toEqual([[undefined, server.port], [server.port], [undefined]])
    await cluster.patch('endpointslices', 'shown', { metadata: { labels: { 'llmkube.ai/managed-by': null } } })
    await eventually(() => !('llmkube.ai/managed-by' in (agent.slices.get('default', 'shown')?.metadata.labels ?? {})))
    expect([ports('node-a', 'default/other'), ports('node-a', 'default/shown')]).toEqual([
      [undefined, server.port],
      [server.port],
    ])
    await done(agent.publisher.withdraw(target))
    expect([ports('node-a', 'default/other'), ports('node-a', 'default/shown')]).toEqual([[undefined], [undefined]])
  })

  test('a holder that was away too long finds its claim taken and does not write over it', async () => {
    await using sim = await KubeSim.start({ garbageCollection: false })
    const cluster = clusterOf({ namespace: 'default', http: new KubeHttp(sim.connection()) })
    const on = { connection: sim.connection(), namespace: 'default' }
    await using sleeper = await startPublishing(on, 'node-a')
    await using heir = await startPublishing(on, 'node-b')
    const target = await cluster.inferenceService('slept')
    await serve(sleeper, target)
    await eventually(() => heir.publisher.observe(target).published?.ready)
    sim.breakWatches('silence')
    heir.clock.now += 180_000
    await done(heir.publisher.takeOver(target))
    await done(heir.publisher.publish(target, { ...server, address: '192.0.2.8' }))

    expect(sleeper.publisher.observe(target).claim.kind).toBe('ours')
    sleeper.publisher.watchGap()
    await eventually(() => sleeper.changed.includes('default/slept'))
    expect(sleeper.publisher.observe(target)).toMatchObject({
      claim: { kind: 'foreign', holder: 'node-b.local' },
      published: { address: '192.0.2.8' },
    })
  })

  test('writes that waited when the watch was interrupted are dropped', async () => {
    await using room = await publishingInSimulation()
    const { sim, cluster, agent } = room
    const target = await cluster.inferenceService('queued')
    await done(agent.publisher.claim(target))
    await done(agent.publisher.ensureService(target))
    sim.faults.add({ on: { verb: 'patch' }, fault: { kind: 'slow-body', bytes: 200, everyMs: 20 } })
    const running = agent.publisher.publish(target, { ...server, port: 1 })
    const waiting = agent.publisher.publish(target, { ...server, port: 2 })
    await eventually(() => agent.api.takeRequests().includes('PATCH endpointslices'))
    agent.publisher.watchGap()
    expect(await Promise.all([running, waiting])).toMatchObject([{ kind: 'done' }, { kind: 'dropped' }])
    expect(agent.publisher.observe(target).published).toMatchObject({ port: 1 })
  })

  test('a shutdown does not wait for a cluster that does not answer', async () => {
    await using room = await publishingInSimulation()
    const { sim, cluster, agent } = room
    const [deaf, fine] = [await cluster.inferenceService('deaf'), await cluster.inferenceService('fine')]
    await serve(agent, deaf)
    await serve(agent, fine)
    sim.faults.add({ on: { resource: 'endpointslices', name: 'deaf' }, times: Infinity, fault: { kind: 'stall' } })
    expect(await agent.publisher.withdrawAll(300)).toEqual([
      { key: 'default/deaf', message: 'The cluster did not answer within 0.3 s.' },
    ])
    expect(agent.publisher.observe(fine).published).toEqual({ ...server, ready: false })
  })

  test('an agent that starts sees from the server’s stamps that a holder is long dead', async () => {
    await using sim = await KubeSim.start({ garbageCollection: false })
    const cluster = clusterOf({ namespace: 'default', http: new KubeHttp(sim.connection()) })
    const on = { connection: sim.connection(), namespace: 'default' }
    const target = await cluster.inferenceService('stale')
    {
      await using gone = await startPublishing(on, 'node-a')
      await serve(gone, target)
    }
    sim.clockOffsetMs = 170_000
    await using early = await startPublishing(on, 'node-b')
    expect(early.publisher.observe(target).claim.kind).toBe('foreign')
    sim.clockOffsetMs = 190_000
    await using late = await startPublishing(on, 'node-c')
    expect(late.publisher.observe(target).claim.kind).toBe('dead')
  })
})

/** A cluster that misbehaves on demand, and one agent that publishes there. */
async function publishingInSimulation(options: Parameters<typeof startPublishing>[2] = {}) {
  await using stack = new AsyncDisposableStack()
  const sim = stack.use(await KubeSim.start({ garbageCollection: false }))
  const cluster = clusterOf({ namespace: 'default', http: new KubeHttp(sim.connection()) })
  const on = { connection: sim.connection(), namespace: 'default' }
  const agent = stack.use(await startPublishing(on, 'node-a', options))
  const owned = stack.move()
  return { sim, cluster, agent, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

async function serve({ publisher }: PublishingAgent, target: PublishTarget): Promise<void> {
  await done(publisher.claim(target))
  await done(publisher.ensureService(target))
  await done(publisher.publish(target, server))
}

async function done(result: ReturnType<PublishingAgent['publisher']['claim']>): Promise<void> {
  expect(await result).toEqual({ kind: 'done' })
}

/** As a mutating webhook does: what is written is merged with `change`. */
function changeInFlight({ api }: PublishingAgent, kind: string, change: { readonly metadata: object }): void {
  const [create, patch] = [api.create.bind(api), api.mergePatch.bind(api)]
  vi.spyOn(api, 'create').mockImplementation((resource, namespace, body, options) =>
    create(resource, namespace, resource.plural === kind ? merged(body, change) : body, options),
  )
  vi.spyOn(api, 'mergePatch').mockImplementation((resource, namespace, name, body, signal) =>
    patch(resource, namespace, name, resource.plural === kind ? merged(body, change) : body, signal),
  )
}

function merged(to: object, change: object): object {
  const into: Readonly<Record<string, unknown>> = { ...to }
  const entries = Object.entries(change).map(([key, value]: [string, unknown]) => {
    const there = into[key]
    const isNested = typeof value === 'object' && value !== null && typeof there === 'object' && there !== null
    return [key, isNested ? merged(there, value) : value]
  })
  return { ...into, ...(Object.fromEntries(entries) as object) }
}

function overwritten({ publisher }: PublishingAgent, target: PublishTarget) {
  const { claim } = publisher.observe(target)
  return claim.kind === 'overwritten' ? claim : undefined
}
