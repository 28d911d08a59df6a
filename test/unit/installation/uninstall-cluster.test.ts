import { leaseNameOf } from '../../../src/agent-core/publishing/lease-content.ts'
import { hostname } from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { managedBy } from '../../../src/agent-core/publishing/objects.ts'
import type { TraceKind } from '../../../src/contract/uninstall.ts'
import { listTraces, removeTraces } from '../../../src/installation/uninstall/traces.ts'
import { KubeSim } from '../../support/kube-sim/kube-sim.ts'
import { uninstallWorld } from '../../support/uninstall-world.ts'

const own = '00000000-0000-4000-8000-000000000001'
const other = '00000000-0000-4000-8000-000000000002'
const apiVersion = 'inference.llmkube.dev/v1alpha1'

async function world() {
  await using stack = new AsyncDisposableStack()
  const there = stack.use(await uninstallWorld())
  const sim = stack.use(await KubeSim.start())
  const { stateDir, write } = there
  const kubeconfig = await write(there.at('kubeconfig'), sim.kubeconfig())
  await write(path.join(stateDir, 'node.json'), JSON.stringify({ schema: 1, nodeId: own }))
  const pin = { context: 'sim', server: sim.url }
  await write(path.join(stateDir, 'cluster.json'), JSON.stringify({ schema: 1, pin }))
  await write(path.join(stateDir, 'settings.json'), JSON.stringify({ schema: 1, settings: { kubeconfig } }))
  const service = (name: string, labels = {}, spec: object = { modelRef: name }) =>
    sim.create({ apiVersion, kind: 'InferenceService', metadata: { name, labels }, spec })
  const publish = (name: string, claim: object | undefined): void => {
    const { uid } = service(name).metadata
    const metadata = {
      name,
      labels: { 'llmkube.ai/managed-by': managedBy, 'kubernetes.io/service-name': name },
      ownerReferences: [{ apiVersion, kind: 'InferenceService', name, uid }],
    }
    const annotations = claim === undefined ? {} : { 'metalbar.dev/claim': JSON.stringify(claim) }
    const slice = { addressType: 'IPv4', endpoints: [], ports: [] }
    sim.create({
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { ...metadata, annotations },
      ...slice,
    })
    sim.create({ apiVersion: 'v1', kind: 'Endpoints', metadata })
    sim.create({ apiVersion: 'v1', kind: 'Service', metadata, spec: { ports: [{ port: 8080 }] } })
  }
  const names = () =>
    ['endpointslices', 'endpoints', 'services'].map((resource) =>
      sim.list(resource, { namespace: 'default' }).map(({ metadata }) => metadata.name),
    )
  const owned = stack.move()
  return { there, sim, service, publish, names, pin, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

const chosen = (...kinds: TraceKind[]) => ({ chosen: new Set(kinds), onStep: () => undefined })

test('what this machine claims or gave up is deleted; what another agent or nobody has is left alone', async () => {
  await using cluster = await world()
  const { there, publish, names } = cluster
  const heartbeat = '2026-11-23T13:00:00Z'
  publish('mine', { node: own, epoch: 3, heartbeat })
  publish('released', { heartbeat, releasedBy: own })
  publish('other-mac', { node: other, epoch: 1, heartbeat })
  publish('released-there', { heartbeat, releasedBy: other })
  publish('ownerless', { heartbeat })
  publish('go-agent', undefined)
  const parts = await there.parts()
  const [listed] = await listTraces(parts)
  expect(listed?.kind).toBe('cluster')
  expect(listed?.places.map((place) => place.path)).toEqual([
    ...['EndpointSlice', 'Endpoints', 'Service'].map((kind) => `default/mine (${kind})`),
    ...['EndpointSlice', 'Endpoints', 'Service'].map((kind) => `default/released (${kind})`),
  ])
  const [removal] = await removeTraces(parts, chosen('cluster'))
  expect(removal).toMatchObject({ isGone: true, message: 'Removed.' })
  const left = ['go-agent', 'other-mac', 'ownerless', 'released-there']
  expect(names().map((some) => some.filter((name) => name !== 'kubernetes').sort())).toEqual([left, left, left])
})

test('the Lease that a killed agent left is deleted, and that of another machine is not', async () => {
  await using cluster = await world()
  const { there, sim } = cluster
  const name = leaseNameOf(hostname())
  sim.create({
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name, namespace: 'default' },
    spec: { holderIdentity: other },
  })
  const places = async () => {
    const traces = await listTraces(await there.parts())
    return traces.find(({ kind }) => kind === 'cluster')?.places.map((place) => place.path)
  }
  const ofAnother = await places()
  sim.patch({ resource: 'leases', name, namespace: 'default' }, { spec: { holderIdentity: own } })
  const ofOurs = await places()
  await removeTraces(await there.parts(), chosen('cluster'))
  expect([ofAnother, ofOurs, sim.list('leases')]).toEqual([undefined, [`default/${name} (Lease)`], []])
})

test('without an identity nothing is deleted, not even what says of no machine that it gave it up', async () => {
  await using cluster = await world()
  const { there, publish, names } = cluster
  publish('ownerless', { heartbeat: '2026-11-23T13:00:00Z' })
  publish('other-mac', { node: other, epoch: 1, heartbeat: '2026-11-23T13:00:00Z' })
  await there.write(path.join(there.stateDir, 'node.json'), '{}')
  const before = names()
  await removeTraces(await there.parts(), chosen('cluster'))
  expect(names()).toEqual(before)
})

test('a Service of the same name that no agent made stays when the slice goes', async () => {
  await using cluster = await world()
  const { there, sim, names } = cluster
  cluster.publish('mine', { node: own, epoch: 3, heartbeat: '2026-11-23T13:00:00Z' })
  sim.patch({ resource: 'services', name: 'mine' }, { metadata: { labels: { 'llmkube.ai/managed-by': null } } })
  const [removal] = await removeTraces(await there.parts(), chosen('cluster'))
  expect(removal).toMatchObject({ isGone: true, message: 'Removed.' })
  expect(names().map((some) => some.filter((name) => name !== 'kubernetes'))).toEqual([[], [], ['mine']])
})

test('nothing is deleted in a cluster that took the place of the one that was served', async () => {
  await using cluster = await world()
  const { there, publish, pin } = cluster
  publish('mine', { node: own, epoch: 3, heartbeat: '2026-11-23T13:00:00Z' })
  const moved = { schema: 1, pin: { ...pin, server: 'https://another.example.org:6443' } }
  await there.write(path.join(there.stateDir, 'cluster.json'), JSON.stringify(moved))
  const [removal] = await removeTraces(await there.parts(), chosen('cluster'))
  expect(removal?.isGone).toBe(false)
  expect(removal?.message).toContain('so nothing is deleted there')
  expect(cluster.sim.get({ resource: 'endpointslices', name: 'mine' })).toBeDefined()
})

test('a cluster that refuses is said with its words and the lines for somebody who may', async () => {
  await using cluster = await world()
  const { there, publish, sim } = cluster
  publish('mine', { node: own, epoch: 3, heartbeat: '2026-11-23T13:00:00Z' })
  sim.faults.add({ on: { verb: 'delete' }, times: Infinity, fault: { kind: 'status', code: 403 } })
  const [removal] = await removeTraces(await there.parts(), chosen('cluster'))
  expect(removal?.isGone).toBe(false)
  expect(removal?.byHand[0]).toMatch(
    /^kubectl --kubeconfig \S+ --context sim -n default delete endpointslices\.discovery\.k8s\.io\/mine endpoints\/mine services\/mine$/,
  )
})
