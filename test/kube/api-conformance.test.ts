import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { apiWorlds } from '../support/api-worlds/api-worlds.ts'
import { KubeHttp, type KubeAnswer } from '../support/controller-stand-in/kube-http.ts'

const llmkube = 'inference.llmkube.dev/v1alpha1'
const ours = 'metalbar'

const body = z.looseObject({
  kind: z.string(),
  metadata: z.looseObject({
    name: z.string().optional(),
    uid: z.string().optional(),
    resourceVersion: z.string().optional(),
    continue: z.string().optional(),
    generation: z.number().optional(),
    creationTimestamp: z.string().optional(),
    deletionTimestamp: z.string().optional(),
    finalizers: z.array(z.string()).optional(),
    labels: z.record(z.string(), z.string()).optional(),
    annotations: z.record(z.string(), z.string()).optional(),
  }),
  spec: z.record(z.string(), z.unknown()).optional(),
  status: z.unknown().optional(),
  items: z.array(z.looseObject({ metadata: z.looseObject({ name: z.string() }) })).nullish(),
  message: z.string().optional(),
  reason: z.string().optional(),
  code: z.number().optional(),
})

const bodyOf = (answer: KubeAnswer) => body.parse(answer.body)
const metadataOf = (answer: KubeAnswer) => bodyOf(answer).metadata
/** What a refusal says, without what differs from server to server. */
const refusal = (answer: KubeAnswer) => {
  const { message, reason, code } = bodyOf(answer)
  return { status: answer.status, code, reason, message }
}
const versionOf = (answer: KubeAnswer) => metadataOf(answer).resourceVersion ?? ''

const conditionsOf = (answer: KubeAnswer) =>
  z
    .object({
      status: z.looseObject({
        conditions: z.array(z.looseObject({ type: z.string(), status: z.string(), reason: z.string() })),
      }),
    })
    .parse(answer.body)
    .status.conditions.map(({ type, status, reason }) => ({ type, status, reason }))

const event = z.looseObject({
  type: z.string(),
  object: z.looseObject({
    code: z.number().optional(),
    reason: z.string().optional(),
    metadata: z.looseObject({ name: z.string().optional(), resourceVersion: z.string().optional() }).optional(),
  }),
})

const oldVersion = '1'
const staleUid = '00000000-0000-0000-0000-000000000000'

describe.each(apiWorlds)('on $name', ({ use }) => {
  const world = use()
  let counter = 0
  const fresh = (prefix: string) => `${prefix}-${(counter += 1)}`

  const collection = (plural: string, namespace = world().namespace) => {
    const roots: Record<string, string> = {
      inferenceservices: `/apis/${llmkube}`,
      models: `/apis/${llmkube}`,
      endpointslices: '/apis/discovery.k8s.io/v1',
    }
    return `${roots[plural] ?? '/api/v1'}/namespaces/${namespace}/${plural}`
  }
  const get = (plural: string, name: string) => world().http.request({ path: `${collection(plural)}/${name}` })
  const list = (plural: string, query = '') => world().http.request({ path: `${collection(plural)}?${query}` })
  const post = (plural: string, object: object, query = `fieldManager=${ours}`) =>
    world().http.request({ method: 'POST', path: `${collection(plural)}?${query}`, body: object })
  const put = (plural: string, name: string, object: unknown, door = '') =>
    world().http.request({ method: 'PUT', path: `${collection(plural)}/${name}${door}`, body: object })
  const merge = (plural: string, name: string, patch: object, query = `fieldManager=${ours}`) =>
    world().http.request({
      method: 'PATCH',
      path: `${collection(plural)}/${name}?${query}`,
      body: patch,
      contentType: 'application/merge-patch+json',
    })
  const apply = (plural: string, name: string, object: object, { manager = ours, force = false, door = '' } = {}) =>
    world().http.request({
      method: 'PATCH',
      path: `${collection(plural)}/${name}${door}?fieldManager=${manager}${force ? '&force=true' : ''}`,
      body: object,
      contentType: 'application/apply-patch+yaml',
    })
  const mergeStatus = (plural: string, name: string, patch: object) =>
    world().http.request({
      method: 'PATCH',
      path: `${collection(plural)}/${name}/status`,
      body: patch,
      contentType: 'application/merge-patch+json',
    })
  const remove = (plural: string, name: string, preconditions?: object) =>
    world().http.request({
      method: 'DELETE',
      path: `${collection(plural)}/${name}`,
      body: { apiVersion: 'v1', kind: 'DeleteOptions', ...(preconditions ? { preconditions } : {}) },
    })

  const slice = (name: string, address?: string) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name, labels: { 'kubernetes.io/service-name': name } },
    addressType: 'IPv4',
    endpoints: address === undefined ? [] : [{ addresses: [address], conditions: { ready: true } }],
    ports: address === undefined ? [] : [{ name: 'http', port: 40_000, protocol: 'TCP' }],
  })
  const service = (name: string) => ({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name },
    spec: { ports: [{ name: 'http', port: 8080, targetPort: 40_000 }] },
  })
  const inferenceService = (name: string, spec: object = {}) => ({
    apiVersion: llmkube,
    kind: 'InferenceService',
    metadata: { name },
    spec: { modelRef: 'tiny', ...spec },
  })
  const condition = (type: string, reason: string, status = 'True') => ({
    type,
    status,
    reason,
    message: '',
    lastTransitionTime: '2026-01-01T00:00:00Z',
  })
  const applied = (name: string, conditions: object[], metadata: object = {}) => ({
    apiVersion: llmkube,
    kind: 'InferenceService',
    metadata: { name, ...metadata },
    status: { conditions },
  })

  describe('creating', () => {
    test('an InferenceService gets the defaults of its schema, generation 1 and no status', async () => {
      const name = fresh('isvc')
      const created = await post('inferenceservices', { ...inferenceService(name), status: { phase: 'Ready' } })
      const { spec, status, metadata } = bodyOf(created)
      expect({ spec, status, generation: metadata.generation }).toMatchObject({
        spec: { modelRef: 'tiny', runtime: 'llamacpp', replicas: 1, suspend: false, priority: 'normal' },
        status: undefined,
        generation: 1,
      })
    })

    test.each([
      ['a missing field', { modelRef: undefined }, 'spec.modelRef: Required value'],
      [
        'a number out of range',
        { replicas: 11 },
        'spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10',
      ],
      [
        'a word that is not in the list',
        { priority: 'urgent' },
        'spec.priority: Unsupported value: "urgent": supported values: "critical", "high", "normal", "low", "batch"',
      ],
      [
        'a text where a number belongs',
        { contextSize: 'many' },
        'spec.contextSize: Invalid value: "string": spec.contextSize in body must be of type integer: "string"',
      ],
    ])('%s in an InferenceService is refused', async (_what, spec, why) => {
      const name = fresh('isvc')
      expect(refusal(await post('inferenceservices', inferenceService(name, spec)))).toMatchObject({
        status: 422,
        reason: 'Invalid',
        message: expect.stringContaining(why) as string,
      })
    })

    test('a dry run answers like the real thing and leaves nothing', async () => {
      const name = fresh('slice')
      const answer = await post('endpointslices', slice(name), 'dryRun=All')
      expect([answer.status, (await get('endpointslices', name)).status]).toEqual([201, 404])
    })
  })

  describe('merge patches with preconditions', () => {
    test('a resourceVersion of the past is a conflict', async () => {
      const name = fresh('slice')
      const { uid, resourceVersion } = metadataOf(await post('endpointslices', slice(name)))
      await merge('endpointslices', name, { metadata: { annotations: { a: '1' } } })
      expect(
        refusal(await merge('endpointslices', name, { metadata: { uid, resourceVersion, annotations: { a: '2' } } })),
      ).toEqual({
        status: 409,
        code: 409,
        reason: 'Conflict',
        message: `Operation cannot be fulfilled on endpointslices.discovery.k8s.io "${name}": the object has been modified; please apply your changes to the latest version and try again`,
      })
    })

    test('another uid without a resourceVersion is invalid', async () => {
      const name = fresh('slice')
      await post('endpointslices', slice(name))
      const answer = await merge('endpointslices', name, { metadata: { uid: staleUid } })
      expect([answer.status, bodyOf(answer).reason, bodyOf(answer).message]).toEqual([
        422,
        'Invalid',
        `EndpointSlice.discovery.k8s.io "${name}" is invalid: metadata.uid: Invalid value: "${staleUid}": field is immutable`,
      ])
    })

    test('a missing object is not found, never created', async () => {
      const name = fresh('slice')
      const answer = await merge('endpointslices', name, { metadata: { annotations: { a: '1' } } })
      expect([answer.status, bodyOf(answer).reason, (await get('endpointslices', name)).status]).toEqual([
        404,
        'NotFound',
        404,
      ])
    })

    test('a patch that changes nothing makes no new version', async () => {
      const name = fresh('slice')
      await post('endpointslices', slice(name))
      const once = await merge('endpointslices', name, { metadata: { annotations: { a: '1' } } })
      expect(versionOf(await merge('endpointslices', name, { metadata: { annotations: { a: '1' } } }))).toBe(
        versionOf(once),
      )
    })
  })

  describe('server-side apply', () => {
    test('it creates what is not there, even with a resourceVersion', async () => {
      const name = fresh('slice')
      const answer = await apply('endpointslices', name, {
        ...slice(name),
        metadata: { name, resourceVersion: '12345' },
      })
      expect([answer.status, (await get('endpointslices', name)).status]).toEqual([201, 200])
    })

    test('a stale resourceVersion is a conflict, another uid without one is invalid', async () => {
      const name = fresh('slice')
      const { resourceVersion } = metadataOf(await apply('endpointslices', name, slice(name)))
      await apply('endpointslices', name, slice(name, '192.0.2.1'))
      const stale = await apply('endpointslices', name, {
        ...slice(name, '192.0.2.2'),
        metadata: { name, resourceVersion },
      })
      const foreign = await apply('endpointslices', name, {
        ...slice(name, '192.0.2.2'),
        metadata: { name, uid: staleUid },
      })
      expect([stale.status, foreign.status]).toEqual([409, 422])
    })

    test('the same again makes no new version', async () => {
      const name = fresh('slice')
      const once = await apply('endpointslices', name, slice(name))
      expect(versionOf(await apply('endpointslices', name, slice(name)))).toBe(versionOf(once))
    })
  })

  describe('the status door', () => {
    test('it takes the status only, and the other door everything else', async () => {
      const name = fresh('isvc')
      await post('inferenceservices', inferenceService(name))
      const byStatus = await mergeStatus('inferenceservices', name, {
        spec: { replicas: 5 },
        status: { phase: 'Ready' },
      })
      const bySpec = await merge('inferenceservices', name, { spec: { replicas: 3 }, status: { phase: 'Failed' } })
      expect([bodyOf(byStatus), bodyOf(bySpec)]).toMatchObject([
        { spec: { replicas: 1 }, status: { phase: 'Ready' }, metadata: { generation: 1 } },
        { spec: { replicas: 3 }, status: { phase: 'Ready' }, metadata: { generation: 2 } },
      ])
    })

    test('a wrong uid is ignored there, a stale resourceVersion is a conflict', async () => {
      const name = fresh('isvc')
      const created = await post('inferenceservices', inferenceService(name))
      const merged = await mergeStatus('inferenceservices', name, {
        metadata: { uid: staleUid },
        status: { phase: 'Ready' },
      })
      const byApply = await apply(
        'inferenceservices',
        name,
        applied(name, [condition('MetalAgent', 'Serving')], { uid: staleUid }),
        {
          door: '/status',
        },
      )
      const stale = await apply(
        'inferenceservices',
        name,
        applied(name, [condition('MetalAgent', 'Starting')], { resourceVersion: versionOf(created) }),
        { door: '/status', force: true },
      )
      expect([merged.status, byApply.status, stale.status]).toEqual([200, 200, 409])
    })

    test('conditions are merged by type: ours and the controller’s live beside each other', async () => {
      const name = fresh('isvc')
      const created = await post('inferenceservices', inferenceService(name))
      await put(
        'inferenceservices',
        name,
        { ...bodyOf(created), status: { conditions: [condition('Available', 'InferenceReady')] } },
        '/status',
      )
      const door = { door: '/status', force: true }
      await apply(
        'inferenceservices',
        name,
        applied(name, [condition('MetalAgent', 'Starting'), condition('MemoryPressure', 'Warning')]),
        door,
      )
      const answer = await apply('inferenceservices', name, applied(name, [condition('MetalAgent', 'Serving')]), door)
      expect(conditionsOf(answer)).toEqual([
        { type: 'Available', status: 'True', reason: 'InferenceReady' },
        { type: 'MetalAgent', status: 'True', reason: 'Serving' },
      ])
    })
  })

  describe('deleting', () => {
    test('preconditions that do not hold are conflicts', async () => {
      const name = fresh('slice')
      const { uid, resourceVersion } = metadataOf(await post('endpointslices', slice(name)))
      const answers = [
        await remove('endpointslices', name, { uid: staleUid }),
        await remove('endpointslices', name, { uid, resourceVersion: oldVersion }),
        await remove('endpointslices', name, { uid, resourceVersion }),
        await remove('endpointslices', name, { uid, resourceVersion }),
      ]
      expect(answers.map(({ status }) => status)).toEqual([409, 409, 200, 404])
    })

    test('a finalizer keeps the object, marked, until it is taken away', async () => {
      const name = fresh('isvc')
      await post('inferenceservices', { ...inferenceService(name), metadata: { name, finalizers: ['test.dev/hold'] } })
      await remove('inferenceservices', name)
      const marked = metadataOf(await get('inferenceservices', name))
      await merge('inferenceservices', name, { metadata: { finalizers: null } })
      expect([typeof marked.deletionTimestamp, (await get('inferenceservices', name)).status]).toEqual(['string', 404])
    })

    test('the Endpoints of a Service go with it, its slice stays', async () => {
      const name = fresh('service')
      const subsets = [{ addresses: [{ ip: '192.0.2.1' }], ports: [{ port: 40_000 }] }]
      await post('services', service(name))
      await post('endpoints', { apiVersion: 'v1', kind: 'Endpoints', metadata: { name }, subsets })
      await post('endpointslices', slice(name))
      await remove('services', name)
      const answers = [await get('endpoints', name), await get('endpointslices', name)]
      expect(answers.map(({ status }) => status)).toEqual([404, 200])
    })
  })

  test('an Event must be in the namespace of what it is about', async () => {
    const about = (namespace: string) => ({
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { generateName: 'event-' },
      involvedObject: { apiVersion: llmkube, kind: 'InferenceService', name: 'x', namespace },
      reason: 'Started',
      message: 'm',
      type: 'Normal',
      source: { component: 'llmkube-metal-agent' },
    })
    const answers = [await post('events', about(world().namespace)), await post('events', about('elsewhere'))]
    expect(answers.map(({ status }) => status)).toEqual([201, 422])
  })

  describe('lists', () => {
    test('pages of one list show one moment, whatever happens between them', async () => {
      const labels = { set: fresh('paged') }
      const names = ['a', 'b', 'c'].map((letter) => `${labels.set}-${letter}`)
      for (const name of names) await post('endpointslices', { ...slice(name), metadata: { name, labels } })
      const query = `labelSelector=set%3D${labels.set}&limit=2`
      const first = await list('endpointslices', query)
      await remove('endpointslices', names[2] ?? '')
      await post('endpointslices', { ...slice(`${labels.set}-d`), metadata: { name: `${labels.set}-d`, labels } })
      const second = await list('endpointslices', `${query}&continue=${metadataOf(first).continue ?? ''}`)
      const namesOf = (answer: KubeAnswer) => bodyOf(answer).items?.map(({ metadata }) => metadata.name)
      expect([
        namesOf(first),
        namesOf(second),
        metadataOf(second).continue,
        versionOf(second) === versionOf(first),
      ]).toEqual([names.slice(0, 2), names.slice(2), undefined, true])
    })
  })

  describe('watches', () => {
    /** Events of a watch as short words until `until` says so. */
    const watched = async (
      plural: string,
      query: string,
      until: (seen: string[]) => boolean,
      act?: () => Promise<unknown>,
    ) => {
      const seen: string[] = []
      const stop = new AbortController()
      const acting = act?.()
      try {
        for await (const line of world().http.watch(`${collection(plural)}?watch=true&${query}`, stop.signal)) {
          const { type, object } = event.parse(line)
          seen.push([type, object.metadata?.name ?? object.code ?? ''].join(' ').trim())
          if (until(seen)) break
        }
      } finally {
        stop.abort()
      }
      await acting
      return seen
    }

    test('from a version on, everything since then arrives in order', async () => {
      const name = fresh('slice')
      const from = versionOf(await list('endpointslices'))
      await post('endpointslices', slice(name))
      await merge('endpointslices', name, { metadata: { annotations: { a: '1' } } })
      await remove('endpointslices', name)
      expect(await watched('endpointslices', `resourceVersion=${from}`, ({ length }) => length === 3)).toEqual([
        `ADDED ${name}`,
        `MODIFIED ${name}`,
        `DELETED ${name}`,
      ])
    })

    test('from a version that is forgotten it ends with a 410 in the stream', async () => {
      await world().forget()
      expect(await watched('inferenceservices', `resourceVersion=${oldVersion}`, () => false)).toEqual(['ERROR 410'])
    })

    test('a label that comes or goes is an arrival or a departure', async () => {
      const name = fresh('slice')
      const from = versionOf(await list('endpointslices'))
      await post('endpointslices', slice(name))
      await merge('endpointslices', name, { metadata: { labels: { chosen: name } } })
      await merge('endpointslices', name, { metadata: { annotations: { a: '1' } } })
      await merge('endpointslices', name, { metadata: { labels: { chosen: null } } })
      const query = `labelSelector=chosen%3D${name}&resourceVersion=${from}`
      expect(await watched('endpointslices', query, ({ length }) => length === 3)).toEqual([
        `ADDED ${name}`,
        `MODIFIED ${name}`,
        `DELETED ${name}`,
      ])
    })

    test('a deleted object arrives under the version of its deletion', async () => {
      const name = fresh('slice')
      const created = await post('endpointslices', slice(name))
      await remove('endpointslices', name)
      const path = `${collection('endpointslices')}?watch=true&resourceVersion=${versionOf(created)}`
      for await (const line of world().http.watch(path, new AbortController().signal)) {
        const { type, object } = event.parse(line)
        if (object.metadata?.name !== name) continue
        expect([type, Number(object.metadata.resourceVersion) > Number(versionOf(created))]).toEqual(['DELETED', true])
        break
      }
    })
  })

  describe('rights', () => {
    const readModels = { apiGroups: ['inference.llmkube.dev'], resources: ['models'], verbs: ['get', 'list', 'watch'] }

    test('what no rule allows is forbidden, in words that name it', async () => {
      const { connection, name: user } = await world().restricted([readModels])
      const http = new KubeHttp(connection)
      const allowed = await http.request({ path: collection('models') })
      const denied = await http.request({ path: collection('inferenceservices') })
      const everywhere = await http.request({ path: `/apis/${llmkube}/models` })
      http.close()
      expect([allowed.status, refusal(denied), refusal(everywhere).message]).toEqual([
        200,
        {
          status: 403,
          code: 403,
          reason: 'Forbidden',
          message: `inferenceservices.inference.llmkube.dev is forbidden: User "${user}" cannot list resource "inferenceservices" in API group "inference.llmkube.dev" in the namespace "${world().namespace}"`,
        },
        `models.inference.llmkube.dev is forbidden: User "${user}" cannot list resource "models" in API group "inference.llmkube.dev" at the cluster scope`,
      ])
    })

    test('a user may ask what is allowed', async () => {
      const { connection } = await world().restricted([readModels])
      const http = new KubeHttp(connection)
      const ask = async (verb: string) => {
        const resourceAttributes = {
          group: 'inference.llmkube.dev',
          resource: 'models',
          verb,
          namespace: world().namespace,
        }
        const answer = await http.request({
          method: 'POST',
          path: '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
          body: {
            apiVersion: 'authorization.k8s.io/v1',
            kind: 'SelfSubjectAccessReview',
            spec: { resourceAttributes },
          },
        })
        return answer.body
      }
      const answers = [await ask('list'), await ask('delete')]
      http.close()
      expect(answers).toMatchObject([{ status: { allowed: true } }, { status: { allowed: false } }])
    })

    test('an unknown token is unauthorized', async () => {
      const http = new KubeHttp({ ...world().connection, token: 'nobody' })
      const answer = await http.request({ path: collection('models') })
      http.close()
      expect(refusal(answer)).toEqual({ status: 401, code: 401, reason: 'Unauthorized', message: 'Unauthorized' })
    })
  })

  test('a kind that nobody installed is not found', async () => {
    const answer = await world().http.request({ path: '/apis/llmkube.io/v1alpha1/inferenceservices' })
    expect([answer.status, answer.body]).toEqual([404, '404 page not found\n'])
  })
})
