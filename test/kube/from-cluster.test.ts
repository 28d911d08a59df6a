import { afterAll, describe, expect, test } from 'vitest'
import { join } from 'node:path'
import { askFromCluster, type ProbeTarget } from '../../src/agent-core/doctor/from-cluster.ts'
import { KubeApi } from '../../src/agent-core/kube/kube-api.ts'
import { PinnedContext } from '../../src/agent-core/kube/pinned-context.ts'
import type { ClusterConnection, KubeObject } from '../support/control-plane/admin-client.ts'
import { useControlPlane } from '../support/control-plane/control-plane.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const cluster = useControlPlane()
const folder = await temporaryFolder()
afterAll(() => folder[Symbol.asyncDispose]())
let files = 0

const pods = { apiVersion: 'v1', kind: 'Pod' }
const podsHere = (): Promise<KubeObject[]> => cluster().admin.list(pods)

async function probing(options: { connection?: ClusterConnection; limitMs?: number } = {}) {
  const { connection = cluster().connection, limitMs = 20_000 } = options
  const file = await writeKubeconfig(join(folder.dir, `kubeconfig-${(files += 1)}`), connection)
  const api = new KubeApi(await PinnedContext.load({ file, env: {} }))
  const leaving = new AbortController()
  const target: ProbeTarget = {
    ...{ namespace: cluster().namespace, name: 'tiny', uid: '0f9b1a52-4c1e-4a6e-9d0c-1c7c9f2f5a11' },
    ...{ serviceName: 'tiny', servicePort: 8080, address: '192.0.2.7', port: 50_001 },
  }
  const answer = askFromCluster(target, { api, image: 'busybox:1.37', signal: leaving.signal, limitMs })
  answer.catch(() => undefined)
  return { answer, leaving }
}

/** What a kubelet would say of the Pod. */
async function kubelet(status: object): Promise<void> {
  const pod = await eventually(async () => (await podsHere())[0])
  await cluster().admin.patch({ ...pods, metadata: { name: pod.metadata.name } }, { status }, 'status')
}

const ended = (message: string, exitCode = 0) => ({
  phase: 'Succeeded',
  containerStatuses: [
    {
      ...{ name: 'probe', image: 'busybox:1.37', imageID: '', ready: false, restartCount: 0 },
      state: { terminated: { exitCode, message } },
    },
  ],
})
const waiting = (reason: string, message: string) => ({
  phase: 'Pending',
  containerStatuses: [
    {
      ...{ name: 'probe', image: 'busybox:1.37', imageID: '', ready: false, restartCount: 0 },
      state: { waiting: { reason, message } },
    },
  ],
})

describe('a Pod that asks from inside the cluster', () => {
  test('may do nothing but ask, and is gone once it has told how far it got', async () => {
    const { answer } = await probing()
    const pod = await eventually(async () => (await podsHere())[0])
    expect(pod).toMatchObject({
      metadata: {
        name: expect.stringMatching(/^metalbar-probe-[0-9a-f]{10}$/) as string,
        ownerReferences: [{ name: 'tiny' }],
      },
      spec: {
        ...{ restartPolicy: 'Never', automountServiceAccountToken: false, activeDeadlineSeconds: 60 },
        securityContext: { runAsNonRoot: true },
        containers: [{ image: 'busybox:1.37', securityContext: { readOnlyRootFilesystem: true } }],
      },
    })
    await kubelet(ended("service 1 wget: bad address 'tiny'\naddress 0 fine\n"))
    expect(await answer).toMatchObject({ hop: 'dns', isReached: false })
    expect(await podsHere()).toEqual([])
  })

  test.each([
    ['its image is not there', waiting('ErrImagePull', 'no such image'), /ErrImagePull: no such image/],
    [
      'its image cannot be run as nobody',
      waiting('CreateContainerConfigError', 'image will run as root'),
      /will run as root/,
    ],
    ['it ends and says nothing', ended('', 127), /ended with code 127 and reported no result/],
    [
      'it is evicted',
      { phase: 'Failed', reason: 'Evicted', message: 'The node was low on memory' },
      /Evicted The node was low/,
    ],
  ])('where %s is told as that', async (_what, status, says) => {
    const { answer } = await probing()
    await kubelet(status)
    expect(await answer).toEqual({ hop: 'pod', isReached: false, says: expect.stringMatching(says) as string })
    expect(await podsHere()).toEqual([])
  })

  test('that never starts is given up in time, with what the scheduler says', async () => {
    const { answer } = await probing({ limitMs: 1_500 })
    await kubelet({
      phase: 'Pending',
      conditions: [
        { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/3 nodes are available' },
      ],
    })
    expect((await answer).says).toMatch(/0\/3 nodes are available/)
    expect(await podsHere()).toEqual([])
  })

  test('is let into a namespace that enforces the restricted standard', async () => {
    const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: cluster().namespace } }
    const enforced = (standard: string | null) =>
      cluster().admin.patch(namespace, { metadata: { labels: { 'pod-security.kubernetes.io/enforce': standard } } })
    await enforced('restricted')
    const { answer } = await probing()
    await kubelet(ended('service 0 fine\naddress 0 fine\n'))
    expect(await answer).toMatchObject({ hop: 'reached', isReached: true })
    await enforced(null)
  })

  test('is not made where the login may not, and the role that it lacks is named', async () => {
    const { connection } = await cluster().restrictedKubeconfig([])
    const { answer } = await probing({ connection })
    expect(await answer).toMatchObject({
      hop: 'forbidden',
      says: expect.stringMatching(/pods.* is forbidden.*metalbar-probe of metal-agent rights --further/) as string,
    })
  })

  test('that somebody deletes meanwhile is told at once, and is not looked for again', async () => {
    const { answer } = await probing()
    const made = await eventually(async () => (await podsHere())[0])
    await cluster().admin.delete({ ...pods, metadata: { name: made.metadata.name } })
    expect(await answer).toMatchObject({
      isReached: false,
      says: expect.stringMatching(/"metalbar-probe-\w+" not found/) as string,
    })
  })

  test('is deleted at once where nobody waits for it any longer', async () => {
    const { answer, leaving } = await probing()
    await eventually(async () => (await podsHere()).length === 1)
    leaving.abort(new Error('the person left'))
    await expect(answer).rejects.toThrow('the person left')
    expect(await podsHere()).toEqual([])
  })
})
