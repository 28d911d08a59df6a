import { expect, test } from 'vitest'
import { z } from 'zod'
import { ApiError } from '../../src/agent-core/kube/api-error.ts'
import { KubeApi } from '../../src/agent-core/kube/kube-api.ts'
import { PinnedContext } from '../../src/agent-core/kube/pinned-context.ts'
import { resources } from '../../src/agent-core/kube/resources.ts'
import { useControlPlane } from '../support/control-plane/control-plane.ts'
import { eventually } from '../support/eventually.ts'

const cluster = useControlPlane()

const openApi = async (): Promise<KubeApi> =>
  new KubeApi(await PinnedContext.load({ file: cluster().kubeconfig, env: {} }))

test("a refusal carries the server's code, reason and words", async () => {
  const api = await openApi()
  const refusal: unknown = await api
    .create(resources.models, cluster().namespace, { metadata: { name: 'Not Valid' }, spec: { source: '/m' } })
    .catch((error: unknown) => error)
  expect(refusal).toBeInstanceOf(ApiError)
  expect(refusal).toMatchObject({ code: 422, reason: 'Invalid' })
  expect(String(refusal)).toMatch(/Not Valid/)
})

test('a merge patch removes by null, and a wrong resourceVersion is a conflict', async () => {
  const api = await openApi()
  const { namespace } = cluster()
  const metadata = { name: 'patched', annotations: { keep: 'a', drop: 'b' } }
  await api.create(resources.models, namespace, { metadata, spec: { source: '/m' } })
  const patched = await api.mergePatch(resources.models, namespace, 'patched', {
    metadata: { annotations: { drop: null } },
  })
  const annotations = z.object({ metadata: z.object({ annotations: z.record(z.string(), z.string()) }) })
  const stale = api.mergePatch(resources.models, namespace, 'patched', { metadata: { resourceVersion: '1' } })
  await expect(stale).rejects.toMatchObject({ code: 409 })
  expect(annotations.parse(patched).metadata.annotations).toEqual({ keep: 'a' })
})

test('the schemas of a group say another text once a CRD of it is updated', async () => {
  const api = await openApi()
  const definitions = {
    ...{ group: 'apiextensions.k8s.io', version: 'v1' },
    ...{ plural: 'customresourcedefinitions', kind: 'CustomResourceDefinition' },
  }
  const group = `${cluster().namespace}.example`
  const widgets = { group, version: 'v1', plural: 'widgets', kind: 'Widget' }
  const versions = (description: string) => [
    { name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: { type: 'object', description } } },
  ]
  expect(await api.schemaOf(widgets)).toBeUndefined()
  const created = versioned.parse(
    await api.create(definitions, '', {
      metadata: { name: `widgets.${group}` },
      spec: { group, scope: 'Namespaced', names: { plural: 'widgets', kind: 'Widget' }, versions: versions('of 0.9') },
    }),
  )
  try {
    const first = await eventually(() => api.schemaOf(widgets))
    await api.mergePatch(definitions, '', created.metadata.name, { spec: { versions: versions('of 0.10') } })
    await eventually(async () => (await api.schemaOf(widgets)) !== first)
  } finally {
    await api.delete(definitions, '', created.metadata.name, created.metadata)
  }
})

const versioned = z.object({ metadata: z.object({ name: z.string(), uid: z.string() }) })
