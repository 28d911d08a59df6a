import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { PinnedContext } from '../../src/agent-core/kube/pinned-context.ts'
import { parseLease } from '../../src/agent-core/kube/resources.ts'
import { HeartbeatPulse } from '../../src/agent-core/publishing/heartbeat.ts'
import { NodeLease } from '../../src/agent-core/publishing/lease.ts'
import { leaseNameOf, type NodeFacts } from '../../src/agent-core/publishing/lease-content.ts'
import { useControlPlane } from '../support/control-plane/control-plane.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import type { ClusterConnection, KubeObject } from '../support/control-plane/admin-client.ts'
import { eventually } from '../support/eventually.ts'
import { silentLog } from '../support/silent-log.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { crowdedFacts, nodeFacts } from '../unit/publishing/node-facts.ts'
import { CountingApi } from './publishing-agent.ts'

const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' }
/** Longer than any test: a test says itself when there is a beat. */
const never = 3_600_000

interface Options {
  readonly id?: string
  readonly displayName?: string
  readonly connection?: ClusterConnection
  readonly everyMs?: number
  readonly facts?: () => Promise<NodeFacts>
}

describe('the Lease of a machine', () => {
  const cluster = useControlPlane()
  const named = (name: string) => ({ ...lease, metadata: { name } })
  const read = (name: string): Promise<KubeObject | undefined> => cluster().admin.get(named(name))

  async function agent(options: Options = {}) {
    const { id = 'id-a', displayName = 'mac', connection = cluster().connection, everyMs = never } = options
    await using folder = await temporaryFolder()
    const file = await writeKubeconfig(path.join(folder.dir, 'kubeconfig'), connection)
    const api = new CountingApi(await PinnedContext.load({ file, env: {} }))
    const clock = { now: 1_000_000 }
    const said: string[] = []
    const warnings: string[] = []
    let facts: NodeFacts = { ...nodeFacts, displayName }
    const nodeLease = new NodeLease({
      ...{ api, namespace: cluster().namespace, node: { id, displayName } },
      log: { ...silentLog, warn: (message) => warnings.push(message) },
      pulse: new HeartbeatPulse({ random: () => 0.5, everyMs }),
      facts: options.facts ?? (() => Promise.resolve(facts)),
      onChange: () => said.push(nodeLease.notice ?? 'it is written'),
      monotonicNow: () => clock.now,
    })
    return {
      lease: nodeLease,
      clock,
      said,
      warnings,
      /** A heartbeat, to its end: which requests it took. */
      beat: async (change: Partial<NodeFacts> = {}) => {
        facts = { ...facts, ...change }
        await nodeLease.renew()
        await nodeLease.idle()
        return api.takeRequests()
      },
      requests: () => api.takeRequests(),
      stop: () => nodeLease.remove(),
      [Symbol.dispose]: () => nodeLease[Symbol.dispose](),
    }
  }
  const holderOf = (object: KubeObject | undefined) => object && parseLease(object).spec.holderIdentity
  const renewTimeOf = (object: KubeObject | undefined) => object && parseLease(object).spec.renewTime

  test('is made with the first heartbeat, renewed with one request that changes what changed, and gone with an orderly stop', async () => {
    using mac = await agent({ displayName: 'orderly' })
    const made = await mac.beat()
    const first = await read('metalbar-orderly')
    expect(first).toMatchObject({
      metadata: {
        labels: { 'metalbar.dev/node': 'orderly' },
        annotations: {
          'metalbar.dev/host': 'orderly',
          'metalbar.dev/agent-version': '0.9.0',
          'metalbar.dev/runtimes': '[{"name":"llama-server","version":"6500","formats":["gguf"]}]',
          'metalbar.dev/paused': 'false',
        },
      },
      spec: { holderIdentity: 'id-a', leaseDurationSeconds: 180 },
    })
    const renewed = await mac.beat({ paused: true, watts: undefined })
    const second = await read('metalbar-orderly')
    expect(second).toMatchObject({ metadata: { annotations: { 'metalbar.dev/paused': 'true' } } })
    expect(second?.metadata['annotations']).not.toHaveProperty(['metalbar.dev/watts'])
    expect(renewTimeOf(second)).not.toBe(renewTimeOf(first))
    await mac.stop()
    const removed = mac.requests()
    expect({ made, renewed, removed, left: await read('metalbar-orderly'), said: mac.said }).toEqual({
      ...{ made: ['POST leases'], renewed: ['PATCH leases'], removed: ['DELETE leases'], left: undefined, said: [] },
    })
  })

  test('of an agent that was killed is taken up by the next one at once, and what the last one told is not left', async () => {
    using killed = await agent({ displayName: 'killed' })
    await killed.beat({ watts: 31 })
    killed[Symbol.dispose]()
    using next = await agent({ displayName: 'killed' })
    const requests = await next.beat({ modelsServed: 3, watts: undefined })
    const taken = await read('metalbar-killed')
    expect(taken).toMatchObject({ metadata: { annotations: { 'metalbar.dev/models-served': '3' } } })
    expect(taken?.metadata['annotations']).not.toHaveProperty(['metalbar.dev/watts'])
    expect(requests).toEqual(['POST leases', 'GET leases', 'PATCH leases'])
    expect(await next.beat()).toEqual(['PATCH leases'])
  })

  test('of another agent that lives is not touched, whatever its clock says; of one that is silent for 180 s it is taken over', async () => {
    using holder = await agent({ id: 'id-b', displayName: 'twin' })
    await holder.beat()
    using second = await agent({ displayName: 'twin' })
    await second.beat()
    // A time of long ago is a clock that is wrong, and no silence.
    await cluster().admin.patch(named('metalbar-twin'), { spec: { renewTime: '2001-01-01T00:00:00.000000Z' } })
    second.clock.now += 170_000
    const waits = await second.beat()
    await holder.beat()
    second.clock.now += 170_000
    await second.beat()
    const notTouched = holderOf(await read('metalbar-twin'))
    second.clock.now += 170_000
    second.lease.watchGap()
    second.clock.now += 179_000
    await second.beat()
    const afterSleep = holderOf(await read('metalbar-twin'))
    second.clock.now += 1_000
    const takes = await second.beat()
    const taken = await read('metalbar-twin')
    expect({ waits, notTouched, afterSleep, takes }).toEqual({
      ...{ waits: ['GET leases'], notTouched: 'id-b', afterSleep: 'id-b', takes: ['GET leases', 'PATCH leases'] },
    })
    expect(taken).toMatchObject({ spec: { holderIdentity: 'id-a', leaseTransitions: 1 } })
    expect(second.warnings).toEqual(['lease not written', 'lease taken over'])
    expect(second.said).toEqual([
      expect.stringMatching(
        /^The cluster does not know .* is held by another agent, id-b: give one of the two machines /,
      ),
      'it is written',
    ])
    // The one before sees at its next heartbeat that it is no longer its own, and leaves it.
    expect(await holder.beat()).toEqual(['PATCH leases', 'GET leases'])
    expect(holderOf(await read('metalbar-twin'))).toBe('id-a')
    await holder.stop()
    expect(holderOf(await read('metalbar-twin'))).toBe('id-a')
  })

  test('that something else made is never touched, and one that a person deletes or edits is put right', async () => {
    const { admin } = cluster()
    await admin.create({ ...named('metalbar-leader'), spec: { holderIdentity: 'some-controller' } })
    using mac = await agent({ displayName: 'leader' })
    await mac.beat()
    mac.clock.now += 600_000
    await mac.beat()
    expect([holderOf(await read('metalbar-leader')), mac.said]).toEqual([
      'some-controller',
      [expect.stringContaining('was not made by an agent: delete it.') as unknown],
    ])
    await admin.delete(named('metalbar-leader'))
    await mac.beat()
    await mac.beat()
    await admin.delete(named('metalbar-leader'))
    await mac.beat()
    await admin.patch(named('metalbar-leader'), { metadata: { annotations: { 'metalbar.dev/models-served': '99' } } })
    await mac.beat()
    expect(await read('metalbar-leader')).toMatchObject({
      metadata: { annotations: { 'metalbar.dev/models-served': '1' } },
      spec: { holderIdentity: 'id-a' },
    })
    await mac.stop()
    expect(await read('metalbar-leader')).toBeUndefined()
  })

  test('goes with an orderly stop also where it was edited since, and stays where another agent took it since', async () => {
    using edited = await agent({ displayName: 'edited' })
    await edited.beat()
    await cluster().admin.patch(named('metalbar-edited'), { metadata: { annotations: { note: 'mine' } } })
    await edited.stop()
    using lost = await agent({ displayName: 'lost' })
    await lost.beat()
    await cluster().admin.patch(named('metalbar-lost'), { spec: { holderIdentity: 'id-b' } })
    await lost.stop()
    expect([await read('metalbar-edited'), holderOf(await read('metalbar-lost'))]).toEqual([undefined, 'id-b'])
  })

  test('without rights costs one request for each heartbeat and is one notice, until they are granted', async () => {
    const access = await cluster().restrictedKubeconfig([])
    using mac = await agent({ displayName: 'poor', connection: access.connection })
    const requests = [await mac.beat(), await mac.beat(), await mac.beat()]
    const leases = { apiGroups: ['coordination.k8s.io'], resources: ['leases'] }
    await access.grant([
      { ...leases, verbs: ['create'] },
      { ...leases, verbs: ['get', 'patch', 'delete'], resourceNames: ['metalbar-poor'] },
    ])
    await eventually(async () => {
      await mac.beat()
      return mac.lease.notice === undefined
    })
    expect([await mac.beat(), holderOf(await read('metalbar-poor'))]).toEqual([['PATCH leases'], 'id-a'])
    await mac.stop()
    expect({ requests, said: mac.said, left: await read('metalbar-poor') }).toEqual({
      requests: [['POST leases'], ['POST leases'], ['POST leases']],
      said: [
        expect.stringMatching(
          /^The cluster does not know what this machine can run; models are served as usual\. These credentials may not write the Lease \S+\/metalbar-poor \(.*cannot create resource "leases".*\): "metal-agent rights" prints the commands that allow it\.$/,
        ),
        'it is written',
      ],
      left: undefined,
    })
  })

  test('is at most 8 kB with all that the API server adds, whatever is on the disk', async () => {
    const displayName = 'x'.repeat(200)
    using mac = await agent({ displayName })
    await mac.beat({ ...crowdedFacts, displayName })
    await mac.beat({ ...crowdedFacts, displayName, watts: undefined })
    const found = await read(leaseNameOf(displayName))
    const bytes = Buffer.byteLength(JSON.stringify(found))
    expect(found).toMatchObject({ metadata: { managedFields: [{ manager: 'metalbar' }] } })
    expect(bytes).toBeGreaterThan(4_000)
    expect(bytes).toBeLessThanOrEqual(8_192)
  })
})
