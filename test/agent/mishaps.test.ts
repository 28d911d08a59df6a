import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { livenessTimings, type LivenessTimings } from '../../src/agent-core/servers/liveness.ts'
import { AgentWorld, commandLineOf, hostIp } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import type { WatchFault } from '../support/kube-sim/faults.ts'

const quickLiveness: LivenessTimings = {
  ...livenessTimings,
  everyMs: 50,
  answerWithinMs: 500,
  followUpMs: 50,
  misses: 2,
  hungMisses: 1_000,
}

describe('a server that fails', () => {
  const api = useRealApiServer()

  test('is withdrawn when it crashes, and comes back; the restart is counted', async () => {
    await using world = await AgentWorld.open(api().connection)
    const { agent, pid } = await world.serving('tiny', { script: { loadMs: 300 } })
    process.kill(pid, 'SIGKILL')
    await world.untilNotReady('tiny')
    const again = await agent.untilReadyAgain('tiny', pid)
    expect(again.restarts).toBe(1)
    expect(await world.published('tiny')).toEqual({ address: hostIp, port: again.port, ready: true })
    expect(await world.eventReasons('tiny')).toEqual(
      expect.arrayContaining(['Claimed', 'Started', 'Ready', 'Stopped', 'Started', 'Ready']),
    )
  })

  test('is withdrawn and started again when it hangs on', async () => {
    await using world = await AgentWorld.open(api().connection)
    const { agent, pid } = await world.serving('tiny', { liveness: { ...quickLiveness, hungMisses: 4 } })
    process.kill(pid, 'SIGSTOP')
    await world.untilNotReady('tiny')
    const { restarts, port } = await agent.untilReadyAgain('tiny', pid)
    expect([restarts, await commandLineOf(pid)]).toEqual([1, undefined])
    await eventually(async () =>
      isDeepStrictEqual(await world.published('tiny'), { address: hostIp, port, ready: true }),
    )
  })
})

describe('a cluster with faults', () => {
  let sim: KubeSim
  beforeAll(async () => {
    sim = await KubeSim.start()
  })
  afterAll(() => sim[Symbol.asyncDispose]())

  test.each<[string, readonly WatchFault[]]>([
    ['twice', [{ kind: 'duplicate' }, { kind: 'duplicate', after: 2 }]],
    ['in the wrong order', [{ kind: 'reorder' }]],
    ['not at all, until the next list', [{ kind: 'lose', count: 2 }]],
    ['cut in half', [{ kind: 'half-line' }]],
    ['behind a line that is none', [{ kind: 'malformed-line' }]],
  ])('that delivers events %s ends in the right state', async (_how, faults) => {
    await using world = await AgentWorld.open(sim.connection())
    const { agent, pid } = await world.serving('tiny')
    const match = { verb: 'watch', namespace: world.namespace }
    const rules = faults.map((fault) => sim.faults.add({ on: { ...match, resource: 'inferenceservices' }, fault }))
    sim.breakWatches('close', match)
    await eventually(() => rules.every(({ hits }) => hits > 0), { what: 'the faults' })
    await world.patchSpec('tiny', { contextSize: 1024 })
    await world.patchSpec('tiny', { contextSize: 4096 })
    sim.breakWatches('gone', match)
    await agent.until('tiny', ({ state, pid: now }) => state === 'ready' && now !== pid)
    const { pid: now = 0 } = await agent.until('tiny', ({ state }) => state === 'ready')
    await eventually(async () => {
      const { pid: current = now } = agent.view('tiny') ?? {}
      return (await commandLineOf(current))?.includes('--ctx-size 4096')
    })
    await eventually(async () => (await world.status('tiny')).phase === 'Ready')
  })

  test('whose agent is gone: its address is withdrawn by one that cannot serve, and taken over by one that can', async () => {
    await using world = await AgentWorld.open(sim.connection())
    await world.applyModel('wanted')
    const left = new Map<string, ReturnType<typeof sliceOfADeadAgent>>()
    for (const name of ['held', 'wanted']) {
      const { metadata } = await world.applyService(name)
      const slice = sliceOfADeadAgent(name, metadata.uid ?? '')
      await world.admin.create(slice)
      left.set(name, slice)
    }
    // The server's clock tells how long ago the last heartbeat was.
    sim.clockOffsetMs = 200_000
    try {
      const agent = await world.startAgent({ name: 'mini', hostIp: '192.0.2.8' })
      const { port } = await agent.untilReady('wanted')
      expect(await world.published('wanted')).toEqual({ address: '192.0.2.8', port, ready: true })
      await agent.until('held', ({ reason }) => reason === 'ModelMissing')
      await world.untilNotReady('held')
      // Everything else stays as its agent left it, which may come back.
      const { metadata, ports } = left.get('held') ?? {}
      expect(await world.slice('held')).toMatchObject({
        metadata,
        endpoints: [{ addresses: [hostIp], conditions: { ready: false } }],
        ports,
      })
    } finally {
      sim.clockOffsetMs = 0
    }
  })
})

function sliceOfADeadAgent(name: string, uid: string) {
  const heartbeat = new Date().toISOString().replace(/\.\d+Z$/, 'Z')
  const node = '00000000-0000-4000-8000-000000000000'
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name,
      labels: {
        'llmkube.ai/managed-by': 'metal-agent',
        'llmkube.ai/inference-service': name,
        'kubernetes.io/service-name': name,
      },
      annotations: {
        'llmkube.ai/agent-heartbeat': heartbeat,
        'metalbar.dev/claim': JSON.stringify({ node, epoch: 1, heartbeat, displayName: 'studio' }),
      },
      ownerReferences: [{ apiVersion: 'inference.llmkube.dev/v1alpha1', kind: 'InferenceService', name, uid }],
    },
    addressType: 'IPv4',
    endpoints: [{ addresses: [hostIp], conditions: { ready: true } }],
    ports: [{ name: 'http', port: 8081, protocol: 'TCP' }],
  }
}
