import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { KubeApi } from '../../src/agent-core/kube/kube-api.ts'
import { PinnedContext } from '../../src/agent-core/kube/pinned-context.ts'
import { lookAtCluster } from '../../src/installation/migration/cluster.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

describe('a look before a move', () => {
  const world = useRealApiServer()

  test('names what its user may not do and our agent has to', async () => {
    const { namespace } = world()
    // As the guide's role for the Go agent, with the lists that a look needs.
    const { connection } = await world().restricted([
      { apiGroups: ['inference.llmkube.dev'], resources: ['inferenceservices', 'models'], verbs: ['get', 'list'] },
      { apiGroups: ['inference.llmkube.dev'], resources: ['inferenceservices/status'], verbs: ['update'] },
      { apiGroups: [''], resources: ['services'], verbs: ['get', 'list', 'create', 'update', 'delete'] },
      {
        apiGroups: ['discovery.k8s.io'],
        resources: ['endpointslices'],
        verbs: ['get', 'list', 'create', 'update', 'delete'],
      },
      { apiGroups: [''], resources: ['endpoints'], verbs: ['get', 'delete'] },
      { apiGroups: [''], resources: ['events'], verbs: ['create', 'patch'] },
    ])
    await using folder = await temporaryFolder()
    const file = await writeKubeconfig(join(folder.dir, 'kubeconfig'), connection)
    const api = new KubeApi(await PinnedContext.load({ file, env: {} }))
    const look = await lookAtCluster(api, { namespace, allowlist: [], ownAddresses: new Set() })
    expect(look.missingRights).toEqual([
      'watch inferenceservices',
      'patch inferenceservices/status',
      'watch models',
      'watch services',
      'patch services',
      'watch endpointslices',
      'patch endpointslices',
      'create endpoints',
      'patch endpoints',
    ])
  })
})
