import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { AgentWorld, commandLineOf, fakeGguf, hostIp, roomForOne, untilGone } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { eventually } from '../support/eventually.ts'

const text: unknown = expect.any(String)

describe('the life of an InferenceService', () => {
  const api = useRealApiServer()
  const open = (options?: Parameters<typeof AgentWorld.open>[1]) => AgentWorld.open(api().connection, options)

  test('applied, it is fetched, started, published and called Ready', async () => {
    await using world = await open()
    const { agent, port, pid, address } = await world.serving('tiny')
    await agent.until('tiny', ({ steps }) => steps.clusterAgrees.status === 'done')

    expect(agent.view('tiny')).toMatchObject({
      state: 'ready',
      reason: 'Serving',
      message: `Serving at ${hostIp}:${port}.`,
      steps: {
        fetched: { status: 'done' },
        started: { status: 'done' },
        healthy: { status: 'done' },
        published: { status: 'done' },
        clusterAgrees: { status: 'done' },
      },
      model: 'tiny',
      restarts: 0,
    })
    const owner = await world.admin.get({
      apiVersion: 'inference.llmkube.dev/v1alpha1',
      kind: 'InferenceService',
      metadata: { name: 'tiny' },
    })
    const labels = {
      app: 'tiny',
      'llmkube.ai/managed-by': 'metal-agent',
      'llmkube.ai/inference-service': 'tiny',
    }
    const ownerReferences = [
      {
        apiVersion: 'inference.llmkube.dev/v1alpha1',
        kind: 'InferenceService',
        name: 'tiny',
        uid: owner?.metadata.uid,
        controller: false,
        blockOwnerDeletion: false,
      },
    ]
    const { metadata: service, ...serviceBody } = (await world.service('tiny')) ?? {}
    const { metadata: slice, ...sliceBody } = (await world.slice('tiny')) ?? {}
    const { metadata: endpoints, ...endpointsBody } = (await world.endpoints('tiny')) ?? {}
    expect(
      [service, slice, endpoints].map((metadata) => [metadata?.['labels'], metadata?.['ownerReferences']]),
    ).toEqual([
      [labels, ownerReferences],
      [{ ...labels, 'kubernetes.io/service-name': 'tiny' }, ownerReferences],
      [
        {
          ...labels,
          'endpointslice.kubernetes.io/skip-mirror': 'true',
          'llmkube.dev/accelerator': 'metal',
        },
        ownerReferences,
      ],
    ])
    expect(service?.['annotations']).toEqual({
      'llmkube.ai/metal-accelerated': 'true',
      'llmkube.ai/native-process': 'true',
    })
    expect(slice?.['annotations']).toEqual({
      'llmkube.ai/agent-heartbeat': text,
      'llmkube.ai/agent-version': 'v0-test',
      'metalbar.dev/claim': text,
    })
    expect(serviceBody).toMatchObject({ spec: { type: 'ClusterIP', ports: [{ name: 'http', port: 8080 }] } })
    expect(sliceBody).toMatchObject({
      addressType: 'IPv4',
      endpoints: [{ addresses: [address], conditions: { ready: true } }],
      ports: [{ name: 'http', port, protocol: 'TCP' }],
    })
    expect(endpointsBody).toMatchObject({
      subsets: [{ addresses: [{ ip: address }], ports: [{ name: 'http', port, protocol: 'TCP' }] }],
    })

    expect(await world.status('tiny')).toMatchObject({ phase: 'Ready', readyReplicas: 1 })
    await eventually(async () => (await world.condition('tiny')) === 'True Serving')
    await eventually(async () => (await world.eventReasons('tiny')).length >= 5)
    expect(await world.eventReasons('tiny')).toEqual(['Claimed', 'Fetched', 'Fetching', 'Ready', 'Started'])
    expect(await commandLineOf(pid)).toContain(`--port ${port} --n-gpu-layers 99 --ctx-size 2048 --metrics`)
    expect(agent.log.warnings).toEqual([])
  })

  test('stopped in good order the agent withdraws, frees the claim and leaves no process; started again it serves at once', async () => {
    await using world = await open()
    const { agent, pid } = await world.serving('tiny')
    await agent.stop()

    expect(await commandLineOf(pid)).toBeUndefined()
    expect(await world.published('tiny')).toMatchObject({ address: hostIp, ready: false })
    expect(await world.endpoints('tiny')).toMatchObject({ subsets: [{ notReadyAddresses: [{ ip: hostIp }] }] })
    expect(await world.claim('tiny')).toEqual({ heartbeat: text, releasedBy: text })
    expect(await world.condition('tiny')).toBe('False Stopped')

    const again = await world.startAgent()
    const { port } = await again.untilReady('tiny')
    expect(await world.published('tiny')).toEqual({ address: hostIp, port, ready: true })
    expect(again.starts).toBe(1)
  })

  describe('changed', () => {
    test('in what reaches the command line, it restarts once, not ready in between where two do not fit, behind the same ClusterIP', async () => {
      await using world = await open()
      const { agent, ...before } = await world.serving('tiny', { settings: roomForOne, script: { loadMs: 500 } })
      const service = await world.service('tiny')

      const changes = [1024, 3072, 4096].map((contextSize) => world.patchSpec('tiny', { contextSize }))
      await Promise.all(changes)
      await world.untilNotReady('tiny')
      expect(await world.slice('tiny')).toBeDefined()
      const after = await agent.untilReadyAgain('tiny', before.pid)

      expect(await commandLineOf(before.pid)).toBeUndefined()
      expect(await commandLineOf(after.pid)).toContain(`--ctx-size ${(await world.contextSize('tiny')) ?? 'none'}`)
      expect(await world.published('tiny')).toEqual({ address: hostIp, port: after.port, ready: true })
      expect((await world.service('tiny'))?.['spec']).toMatchObject({ clusterIP: clusterIpOf(service) })
      expect(agent.starts).toBe(2)
      expect(after.restarts).toBe(0)
    })

    test('in labels, replicas or priority, it restarts nothing, and more than one replica is told', async () => {
      await using world = await open()
      const { agent, ...before } = await world.serving('tiny')
      await world.patchSpec('tiny', { replicas: 2, priority: 'high' })
      const reference = {
        apiVersion: 'inference.llmkube.dev/v1alpha1',
        kind: 'InferenceService',
        metadata: { name: 'tiny' },
      }
      await world.admin.patch(reference, { metadata: { labels: { team: 'blue' } } })

      const view = await agent.until('tiny', ({ steps }) => steps.clusterAgrees.status === 'failed')
      expect(view).toMatchObject({
        state: 'ready',
        pid: before.pid,
        steps: {
          clusterAgrees: {
            message:
              'One Mac serves one replica, but 2 are requested: the cluster stays at Progressing. Set replicas to 1.',
          },
        },
      })
      expect(agent.starts).toBe(1)
      expect(await world.published('tiny')).toMatchObject({ port: before.port, ready: true })
    })

    test('in its Model, the old server keeps serving until the new file is here, then it restarts with it', async () => {
      await using world = await open()
      const { agent, ...before } = await world.serving('tiny')
      const next = world.files.serve('/next.gguf', fakeGguf, { paced: true })
      await world.applyModel('tiny', { source: next.url })
      await agent.until('tiny', 'fetching')
      await eventually(() => next.openResponses === 1)
      expect(await world.published('tiny')).toEqual({ address: hostIp, port: before.port, ready: true })
      expect(await commandLineOf(before.pid)).toContain('tiny.gguf')

      next.allow(fakeGguf.length)
      const after = await agent.untilReadyAgain('tiny', before.pid)
      expect(await commandLineOf(after.pid)).toContain('next.gguf')
      expect(await world.published('tiny')).toEqual({ address: hostIp, port: after.port, ready: true })
    })
  })

  describe('stopped', () => {
    test('by replicas 0 and started again: slice and Endpoints come and go, the Service and its ClusterIP stay', async () => {
      await using world = await open()
      const { agent, pid } = await world.serving('tiny')
      const service = await world.service('tiny')
      await world.patchSpec('tiny', { replicas: 0 })
      await agent.until('tiny', 'stopped')

      expect(agent.log.infos.filter(({ message }) => message === 'replicas=0; stopping process')).toHaveLength(1)
      expect(await commandLineOf(pid)).toBeUndefined()
      expect(await world.publishedKinds('tiny')).toEqual(['Service'])
      await eventually(async () => (await world.status('tiny')).phase === 'Stopped')
      await eventually(async () => (await world.condition('tiny')) === 'False Stopped')
      const stopped = await eventually(async () =>
        (await world.events('tiny')).find(({ reason }) => reason === 'Stopped'),
      )
      expect(stopped.message).toBe('Scaled to zero replicas.')

      await world.patchSpec('tiny', { replicas: 1 })
      await agent.untilReadyAgain('tiny', pid)
      expect(await world.publishedKinds('tiny')).toEqual(['Service', 'EndpointSlice', 'Endpoints'])
      expect((await world.service('tiny'))?.['spec']).toMatchObject({ clusterIP: clusterIpOf(service) })
    })

    test('for so long that somebody cleared the model store, it is fetched again before it starts', async () => {
      await using world = await open()
      const agent = await world.startAgent()
      const model = world.files.serve('/fetched.gguf', fakeGguf)
      await world.apply('tiny', { source: model.url })
      await agent.untilReady('tiny')
      await world.patchSpec('tiny', { replicas: 0 })
      await agent.until('tiny', 'stopped')
      await rm(join(agent.stateDir, 'models'), { recursive: true })
      await world.patchSpec('tiny', { replicas: 1 })
      await agent.untilReady('tiny')
      expect(model.requests.filter(({ method }) => method === 'GET')).toHaveLength(2)
    })
  })

  describe('deleted', () => {
    test('while it serves, nothing of it is left', async () => {
      await using world = await open()
      const { agent, pid } = await world.serving('tiny')
      await world.deleteService('tiny')
      await untilGone(pid)
      await world.untilPublishedKinds('tiny')
      await agent.untilNotShown('tiny')
      expect(agent.log.warnings).toEqual([])
    })

    test('while its model is downloaded, the download ends and nothing is started', async () => {
      await using world = await open()
      const agent = await world.startAgent()
      const large = world.files.serve('/large.gguf', fakeGguf, { paced: true })
      await world.apply('tiny', { source: large.url })
      await eventually(() => large.openResponses === 1)
      await agent.until('tiny', 'fetching')
      await world.deleteService('tiny')
      await eventually(() => large.openResponses === 0, { what: 'the end of the download' })
      await world.untilPublishedKinds('tiny')
      await agent.untilNotShown('tiny')
      expect(agent.starts).toBe(0)
    })

    test('and created again under the same name, it is published for the new object alone', async () => {
      await using world = await open()
      await world.serving('tiny')
      await world.deleteService('tiny')
      const created = await world.applyService('tiny')
      const owned = { metadata: { ownerReferences: [{ uid: created.metadata.uid }] } }
      await eventually(async () => {
        const objects = await Promise.all([world.service('tiny'), world.slice('tiny'), world.endpoints('tiny')])
        expect(objects).toMatchObject([owned, owned, owned])
        return (await world.published('tiny'))?.ready === true
      })
      await eventually(async () => (await world.condition('tiny')) === 'True Serving')
      await eventually(async () => (await world.status('tiny')).phase === 'Ready')
    })
  })
})

const clusterIpOf = (service: object | undefined): string => {
  const spec: unknown = service && 'spec' in service ? service.spec : undefined
  if (typeof spec === 'object' && spec !== null && 'clusterIP' in spec) return String(spec.clusterIP)
  throw new Error('The Service has no ClusterIP.')
}
