import { isDeepStrictEqual } from 'node:util'
import { expect, test } from 'vitest'
import type { CommandInput } from '../../src/contract/commands.ts'
import { AgentWorld, inferenceService } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import type { RequestFault } from '../support/kube-sim/faults.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import type { RunningAgent } from '../support/running-agent.ts'

const run = (agent: RunningAgent, input: CommandInput) => agent.command(input)

/** A cluster with a service of this machine's that is served. */
async function served() {
  await using parts = new AsyncDisposableStack()
  const sim = parts.use(await KubeSim.start({ garbageCollection: false }))
  const world = parts.use(await AgentWorld.open(sim.connection()))
  const agent = await world.startAgent()
  await agent.untilCluster('live')
  const service = { namespace: world.namespace, name: 'tiny' }
  const application = { ...service, source: world.modelUrl }
  await run(agent, { name: 'applyModel', application })
  await agent.untilReady('tiny')
  const fails = (verb: string, fault: RequestFault) =>
    sim.faults.add({ on: { verb, resource: 'inferenceservices', name: 'tiny' }, fault })
  const left = async () => [
    await world.admin.get(inferenceService('tiny')),
    await world.admin.get({
      apiVersion: 'inference.llmkube.dev/v1alpha1',
      kind: 'Model',
      metadata: { name: 'tiny' },
    }),
  ]
  const kept = parts.move()
  return { sim, world, agent, service, application, fails, left, [Symbol.asyncDispose]: () => kept.disposeAsync() }
}

test.each(['reset', 'reset-after'] as const)(
  'a deletion without an answer (%s) is asked for once more, and takes the Model with it',
  async (kind) => {
    await using at = await served()
    at.fails('delete', { kind })
    expect(await run(at.agent, { name: 'deleteModel', service: at.service })).toMatchObject({
      outcome: 'done',
      message: saying(/tiny was deleted\. Its Model tiny was deleted too/),
    })
    expect(await at.left()).toEqual([undefined, undefined])
    // A window asks for them for as long as the server has not ended.
    const asked = { name: 'conditions', service: at.service } as const
    await eventually(async () => isDeepStrictEqual(await at.agent.agent.query(asked), { conditions: [] }))
  },
)

test('a deletion of which nothing can be known is told as such', async () => {
  await using at = await served()
  at.sim.faults.add({
    on: { verb: 'delete', resource: 'inferenceservices', name: 'tiny' },
    times: Infinity,
    fault: { kind: 'reset' },
  })
  expect(await run(at.agent, { name: 'deleteModel', service: at.service })).toMatchObject({
    outcome: 'refused',
    message: saying(/^It is not known whether .*tiny was deleted; try again: the cluster does not answer/),
  })
  at.sim.faults.clear()
  expect((await at.left()).filter(Boolean)).toHaveLength(2)
})

test('what is added again while it is still being deleted is refused until it is gone', async () => {
  await using at = await served()
  await at.world.admin.patch(inferenceService('tiny'), { metadata: { finalizers: ['test.example/held'] } })
  await at.world.deleteService('tiny')
  expect(await run(at.agent, { name: 'applyModel', application: at.application })).toMatchObject({
    outcome: 'refused',
    message: saying(/The InferenceService .*tiny is being deleted: try again when it is gone\./),
  })
})

const saying = (text: RegExp): string => expect.stringMatching(text) as string
