import { expect, test } from 'vitest'
import { AgentWorld, commandLineOf, inferenceService } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'

const suspended = 300
/** Far above what the caches need; a copy of every object for every event would exceed it. */
const heapLimitBytes = 150 * 2 ** 20

test(`${suspended} suspended services beside one that serves are all known, cost nothing, and hold up no change`, async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection(), { controller: false })
  for (let number = 0; number < suspended; number += 1) {
    const metadata = { name: `rest-${number}`, namespace: world.namespace }
    const apiVersion = 'inference.llmkube.dev/v1alpha1'
    const model = { source: world.modelUrl, format: 'gguf', hardware: { accelerator: 'metal' } }
    sim.create({ apiVersion, kind: 'Model', metadata, spec: model })
    sim.create({
      apiVersion,
      kind: 'InferenceService',
      metadata,
      spec: { modelRef: metadata.name, suspend: true },
      status: { phase: 'Suspended', readyReplicas: 0, desiredReplicas: 0 },
    })
  }
  await world.apply('active')
  const heapBefore = process.memoryUsage().heapUsed

  const agent = await world.startAgent()
  const { pid } = await agent.untilReady('active')
  await eventually(() => agent.snapshot.services.filter(({ reason }) => reason === 'Suspended').length === suspended)
  const told = () => sim.requests.count({ verb: 'patch', resource: 'inferenceservices/status' })
  await eventually(() => told() > suspended, { what: 'every condition' })

  await world.patchSpec('active', { contextSize: 1024 })
  const after = await agent.untilReadyAgain('active', pid)
  expect(await commandLineOf(after.pid)).toContain('--ctx-size 1024')

  sim.requests.clear()
  await world.admin.patch(inferenceService('rest-7'), { metadata: { labels: { team: 'blue' } } })
  await world.patchSpec('rest-8', { suspend: false })
  await agent.untilReady('rest-8')
  const namesAsked = sim.requests.matching({ resource: 'inferenceservices/status' }).map(({ name }) => name)
  expect(namesAsked).not.toContain('rest-7')
  expect(process.memoryUsage().heapUsed - heapBefore).toBeLessThan(heapLimitBytes)
})
