import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { startControllerStandIn, type ControllerStandIn } from '../support/controller-stand-in/controller-stand-in.ts'
import { eventually } from '../support/eventually.ts'

const llmkube = 'inference.llmkube.dev/v1alpha1'
const service = z.object({
  metadata: z.looseObject({ resourceVersion: z.string() }),
  status: z
    .looseObject({
      phase: z.string().optional(),
      readyReplicas: z.number().optional(),
      desiredReplicas: z.number().optional(),
      schedulingStatus: z.string().optional(),
      endpoint: z.string().optional(),
      modelReady: z.boolean().optional(),
      conditions: z.array(z.looseObject({ type: z.string(), status: z.string(), reason: z.string() })).optional(),
    })
    .optional(),
})

describe('the stand-in for LLMKube’s controller', () => {
  const world = useRealApiServer()
  let controller: ControllerStandIn | undefined
  let counter = 0
  const fresh = (prefix: string) => `${prefix}-${(counter += 1)}`

  beforeEach(async () => {
    const { connection, namespace } = world()
    controller ??= await startControllerStandIn({ connection, namespace, allowedHostPathRoots: ['/models'] })
  })
  afterAll(async () => {
    await controller?.stop()
  })

  const path = (plural: string, name = '') => {
    const root = plural === 'endpointslices' ? '/apis/discovery.k8s.io/v1' : `/apis/${llmkube}`
    return `${root}/namespaces/${world().namespace}/${plural}${name === '' ? '' : `/${name}`}`
  }
  const create = (plural: string, body: object) => world().http.request({ method: 'POST', path: path(plural), body })
  const remove = (plural: string, name: string) => world().http.request({ method: 'DELETE', path: path(plural, name) })
  const merge = (plural: string, name: string, body: object) =>
    world().http.request({
      method: 'PATCH',
      path: path(plural, name),
      body,
      contentType: 'application/merge-patch+json',
    })
  const createModel = async (source = 'https://models.test/tiny.gguf', accelerator = 'metal') => {
    const name = fresh('model')
    await create('models', {
      apiVersion: llmkube,
      kind: 'Model',
      metadata: { name },
      spec: { source, hardware: { accelerator } },
    })
    return name
  }
  const createService = async (spec: object = {}, name = fresh('isvc')) => {
    const modelRef = await createModel()
    const body = { apiVersion: llmkube, kind: 'InferenceService', metadata: { name }, spec: { modelRef, ...spec } }
    expect((await create('inferenceservices', body)).status).toBe(201)
    return name
  }
  const heartbeat = (ageMs = 0): Record<string, string> => ({
    'llmkube.ai/agent-heartbeat': new Date(Date.now() - ageMs).toISOString(),
  })
  const publish = async (service: string, { name = service, ready = true, annotations = heartbeat() } = {}) => {
    const body = {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name, annotations, labels: { 'kubernetes.io/service-name': service } },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['192.0.2.1'], conditions: { ready } }],
      ports: [{ name: 'http', port: 40_000, protocol: 'TCP' }],
    }
    expect((await create('endpointslices', body)).status).toBe(201)
  }
  const statusOf = async (name: string) => {
    const { metadata, status = {} } = service.parse(
      (await world().http.request({ path: path('inferenceservices', name) })).body,
    )
    return { ...status, resourceVersion: metadata.resourceVersion }
  }
  const reaches = (name: string, expected: object) =>
    eventually(
      async () => {
        const status = await statusOf(name)
        expect(status).toMatchObject(expected)
        return status
      },
      { what: `the status of ${name}` },
    )
  const conditions = ({ conditions = [] }: Awaited<ReturnType<typeof statusOf>>) =>
    Object.fromEntries(conditions.map(({ type, status, reason }) => [type, `${status} ${reason}`]))

  test('a service without a slice waits for an agent; a ready slice makes it Ready, and the old words stay', async () => {
    const name = await createService()
    const waiting = await reaches(name, { phase: 'Creating', schedulingStatus: 'WaitingForMetalAgent' })
    await publish(name)
    const ready = await reaches(name, {
      phase: 'Ready',
      readyReplicas: 1,
      desiredReplicas: 1,
      modelReady: true,
      schedulingStatus: 'WaitingForMetalAgent',
      endpoint: `http://${name}.${world().namespace}.svc.cluster.local:8080/v1/chat/completions`,
    })
    expect([conditions(waiting), conditions(ready)]).toEqual([
      { Available: 'False NoReadyReplicas', Progressing: 'True Creating', Suspended: 'False NotSuspended' },
      { Available: 'True InferenceReady', Suspended: 'False NotSuspended' },
    ])
  })

  test('what an agent writes into its fields is overwritten; a condition of our own survives', async () => {
    const name = await createService()
    await reaches(name, { schedulingStatus: 'WaitingForMetalAgent' })
    const ours = {
      type: 'MetalAgent',
      status: 'False',
      reason: 'Fetching',
      message: '',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    }
    await world().http.request({
      method: 'PATCH',
      path: `${path('inferenceservices', name)}/status?fieldManager=metalbar&force=true`,
      contentType: 'application/apply-patch+yaml',
      body: {
        apiVersion: llmkube,
        kind: 'InferenceService',
        metadata: { name },
        status: { phase: 'Stopped', schedulingStatus: 'InsufficientMemory', conditions: [ours] },
      },
    })
    const after = await reaches(name, { phase: 'Creating', schedulingStatus: 'WaitingForMetalAgent' })
    expect(conditions(after)).toMatchObject({ MetalAgent: 'False Fetching' })
  })

  test('endpoints are counted over all slices: two for one replica is not ready, two for two is', async () => {
    const name = await createService()
    await publish(name)
    await publish(name, { name: `${name}-mirror` })
    await reaches(name, { phase: 'Progressing', readyReplicas: 2, desiredReplicas: 1 })
    await merge('inferenceservices', name, { spec: { replicas: 2 } })
    await reaches(name, { phase: 'Ready', readyReplicas: 2, desiredReplicas: 2 })
  })

  test('replicas 0 is Progressing while the slice is ready, and Stopped after', async () => {
    const name = await createService()
    await publish(name)
    await reaches(name, { phase: 'Ready' })
    await merge('inferenceservices', name, { spec: { replicas: 0 } })
    const still = await reaches(name, { phase: 'Progressing', readyReplicas: 1, desiredReplicas: 0 })
    expect(conditions(still)).toMatchObject({ Available: 'True InferenceReady' })
    await remove('endpointslices', name)
    await reaches(name, { phase: 'Stopped', readyReplicas: 0 })
  })

  test('a suspended service is Suspended', async () => {
    const name = await createService({ suspend: true })
    const status = await reaches(name, { phase: 'Suspended', desiredReplicas: 0 })
    expect(conditions(status)).toEqual({ Available: 'False Suspended', Suspended: 'True Suspended' })
  })

  test('an unready slice and one whose heartbeat is too old or unreadable do not count, one without heartbeat does', async () => {
    const [unready, stale, garbled, legacy] = [
      await createService(),
      await createService(),
      await createService(),
      await createService(),
    ]
    await publish(unready, { ready: false })
    await publish(stale, { annotations: heartbeat(181_000) })
    await publish(garbled, { annotations: { 'llmkube.ai/agent-heartbeat': 'yesterday' } })
    await publish(legacy, { annotations: {} })
    await reaches(unready, { phase: 'Creating', schedulingStatus: 'WaitingForMetalAgent' })
    await reaches(stale, { phase: 'Creating', schedulingStatus: 'AgentHeartbeatStale' })
    await reaches(garbled, { phase: 'Creating', schedulingStatus: 'AgentHeartbeatStale' })
    await reaches(legacy, { phase: 'Ready' })
  })

  test('a Model with a local path outside the allowed roots keeps its service Pending, whatever the slice says', async () => {
    const [refused, allowed] = [await createModel('/elsewhere/tiny.gguf'), await createModel('/models/tiny.gguf')]
    const services = [await createService({ modelRef: refused }), await createService({ modelRef: allowed })]
    for (const name of services) await publish(name)
    await reaches(services[0] ?? '', { phase: 'Pending', modelReady: false, readyReplicas: 0 })
    await reaches(services[1] ?? '', { phase: 'Ready' })
  })

  test('Models of metal are made Ready without a download, of unknown size; others are left alone', async () => {
    const names = [await createModel(), await createModel('/elsewhere/x.gguf'), await createModel(undefined, 'cuda')]
    const statuses = async () =>
      Promise.all(names.map(async (name) => (await world().http.request({ path: path('models', name) })).body))
    await eventually(async () => {
      expect(await statuses()).toMatchObject([
        { status: { phase: 'Ready', size: '0', conditions: [{ type: 'Available', reason: 'WorkloadResolved' }] } },
        { status: { phase: 'Failed', conditions: [{ type: 'Degraded', reason: 'SourceNotAllowed' }] } },
        {},
      ])
      return true
    })
    expect(
      z.array(z.looseObject({ status: z.unknown().optional() })).parse(await statuses())[2]?.status,
    ).toBeUndefined()
  })

  test('a service with dots in its name misses its slice until something else touches it', async () => {
    const dotted = fresh('tiny.7b')
    await createService({}, dotted)
    await reaches(dotted, { phase: 'Creating' })
    // Its own writes settle within a second; only then is a lost event visible.
    const settled = await eventually(async () => {
      const { resourceVersion } = await statusOf(dotted)
      const canary = await createService()
      await publish(canary)
      await reaches(canary, { phase: 'Ready' })
      return (await statusOf(dotted)).resourceVersion === resourceVersion
    })
    await publish(dotted.replaceAll('.', '-'))
    const canary = await createService()
    await publish(canary)
    await reaches(canary, { phase: 'Ready' })
    const missed = await statusOf(dotted)
    await merge('inferenceservices', dotted, { metadata: { annotations: { touched: 'yes' } } })
    await reaches(dotted, { phase: 'Ready' })
    expect([settled, missed.phase]).toEqual([true, 'Creating'])
  })

  test('looking again after a while finds an agent that died', async () => {
    const { connection, namespace } = world()
    const name = await createService()
    await publish(name)
    await reaches(name, { phase: 'Ready' })
    await controller?.stop()
    const later = () => Date.now() + 181_000
    controller = await startControllerStandIn({ connection, namespace, requeueMs: 50, now: later })
    await reaches(name, { phase: 'Creating', schedulingStatus: 'AgentHeartbeatStale' })
  })
})
