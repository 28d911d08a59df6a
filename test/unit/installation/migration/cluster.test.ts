import { expect, test } from 'vitest'
import { KubeApi } from '../../../../src/agent-core/kube/kube-api.ts'
import { PinnedContext } from '../../../../src/agent-core/kube/pinned-context.ts'
import { managedBy } from '../../../../src/agent-core/publishing/objects.ts'
import { lookAtCluster, release, withdraw } from '../../../../src/installation/migration/cluster.ts'
import { KubeSim } from '../../../support/kube-sim/kube-sim.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'

const apiVersion = 'inference.llmkube.dev/v1alpha1'
const heartbeat = '2026-11-23T13:00:00Z'
const here = '192.168.1.20'

interface Slice {
  readonly address: string
  readonly annotations?: Readonly<Record<string, string>>
}

async function cluster() {
  await using stack = new AsyncDisposableStack()
  const sim = stack.use(await KubeSim.start())
  const { dir } = stack.use(await temporaryFolder())
  const file = path.join(dir, 'kubeconfig')
  await writeFile(file, sim.kubeconfig())
  const api = new KubeApi(await PinnedContext.load({ file, env: {} }))
  const apply = (name: string, { accelerator = 'metal', slice }: { accelerator?: string; slice?: Slice } = {}) => {
    const source = 'https://example.com/m.gguf'
    sim.create({ apiVersion, kind: 'Model', metadata: { name }, spec: { source, hardware: { accelerator } } })
    sim.create({ apiVersion, kind: 'InferenceService', metadata: { name }, spec: { modelRef: name } })
    if (!slice) return
    const labels = { 'llmkube.ai/managed-by': managedBy, 'kubernetes.io/service-name': name }
    const annotations = { 'llmkube.ai/agent-heartbeat': heartbeat, ...slice.annotations }
    sim.create({
      ...{ apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', addressType: 'IPv4' },
      metadata: { name, labels, annotations },
      endpoints: [{ addresses: [slice.address], conditions: { ready: true } }],
      ports: [{ name: 'http', port: 5001, protocol: 'TCP' }],
    })
  }
  const look = (allowlist: readonly string[] = []) =>
    lookAtCluster(api, { namespace: undefined, allowlist, ownAddresses: new Set([here]) })
  const owned = stack.move()
  return { api, apply, look, faults: sim.faults, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

test('services for Macs are found with where they are published: here by the Go agent or by ours, elsewhere, or nowhere', async () => {
  await using there = await cluster()
  const claim = JSON.stringify({ node: 'us', epoch: 1, heartbeat })
  there.apply('by-go', { slice: { address: here, annotations: { 'llmkube.ai/agent-version': 'v0.9.19' } } })
  there.apply('by-us', { slice: { address: here, annotations: { 'metalbar.dev/claim': claim } } })
  there.apply('elsewhere', { slice: { address: '10.0.0.3', annotations: { 'llmkube.ai/agent-version': 'v0.8.0' } } })
  there.apply('nowhere')
  there.apply('on-cuda', { accelerator: 'cuda' })
  const { services, agentVersions, pins } = await there.look()
  const published = { address: here, port: 5001, ready: true }
  expect(services.map(({ spec, ...found }) => ({ ...found, model: spec.modelRef }))).toEqual(
    [
      { name: 'by-go', published, isRelayed: false, isMoved: false, elsewhere: undefined },
      { name: 'by-us', published, isRelayed: false, isMoved: true, elsewhere: undefined },
      { name: 'elsewhere', published: undefined, isRelayed: false, isMoved: false, elsewhere: '10.0.0.3' },
      { name: 'nowhere', published: undefined, isRelayed: false, isMoved: false, elsewhere: undefined },
    ].map((one) => ({ ...one, namespace: 'default', model: one.name })),
  )
  expect([agentVersions, pins]).toEqual([['v0.9.19'], []])
})

test('only the services of an allowlist are found, and an agent in relay mode on this machine is noticed', async () => {
  await using there = await cluster()
  const pin = { 'llmkube.ai/agent-ingress-spki': 'x' }
  there.apply('one', { slice: { address: here, annotations: pin } })
  there.apply('two')
  const { services, pins } = await there.look(['two'])
  expect([services.map(({ name }) => name), pins]).toEqual([['two'], ['x']])
})

test.each([
  [4, true],
  [5, false],
])('a slice that others write meanwhile is withdrawn after %i conflicts: %o', async (conflicts, isDone) => {
  await using there = await cluster()
  there.apply('by-go', { slice: { address: here } })
  const [service] = (await there.look()).services
  if (!service) throw new Error('It is not found.')
  const conflict = { kind: 'status', code: 409, reason: 'Conflict', message: 'written meanwhile' } as const
  there.faults.add({ on: { verb: 'patch', resource: 'endpointslices' }, times: conflicts, fault: conflict })
  const withdrawn = withdraw(there.api, service)
  if (!isDone) await expect(withdrawn).rejects.toMatchObject({ code: 409 })
  await withdrawn.catch(() => undefined)
  expect((await there.look()).services[0]?.published?.ready).toBe(!isDone)
})

test('a slice that is gone, or that our agent holds, is neither withdrawn nor given up', async () => {
  await using there = await cluster()
  const claim = JSON.stringify({ node: 'us', epoch: 1, heartbeat })
  there.apply('by-us', { slice: { address: here, annotations: { 'metalbar.dev/claim': claim } } })
  there.apply('nowhere')
  const before = await there.look()
  for (const service of before.services) {
    await withdraw(there.api, service)
    await release(there.api, service)
  }
  expect(await there.look()).toEqual(before)
})
