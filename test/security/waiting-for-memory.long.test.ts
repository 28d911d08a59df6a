import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { maxHeld, watchedAgent } from '../support/event-loop/health-watch.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { tinyModel } from '../support/tiny-model.ts'

const apiVersion = 'inference.llmkube.dev/v1alpha1'
const services = 1_000

test(`${services} services that wait for memory never hold the event loop, also when room appears`, async () => {
  await using folder = await temporaryFolder()
  await using sim = await KubeSim.start()
  await tinyModel(sim, folder.dir)
  await using watched = await watchedAgent({
    folder: folder.dir,
    kubeconfig: sim.kubeconfig(),
    args: ['--llama-server', sampleServerPath, '--memory-budget', '700Mi'],
  })
  const names = Array.from({ length: services }, (_, at) => `w-${at}`)
  for (const name of names) {
    sim.create({ apiVersion, kind: 'InferenceService', metadata: { name }, spec: { modelRef: 'tiny' } })
  }
  const { agent, health } = watched
  const reasons = async () => Map.groupBy((await agent.snapshot()).services, ({ reason }) => reason)
  await eventually(
    async () => {
      const known = await reasons()
      return (known.get('InsufficientMemory')?.length ?? 0) === services - 1 && known.has('Serving')
    },
    { timeoutMs: 150_000, what: 'services that wait' },
  )
  expect(await health.longest()).toBeLessThan(maxHeld)
  // All of them get another place, since one comes that goes before them.
  const spec = { modelRef: 'tiny', priority: 'critical' }
  sim.create({ apiVersion, kind: 'InferenceService', metadata: { name: 'first' }, spec })
  await agent.shows(
    (shown) => shown.services.some(({ name, memory }) => name === 'first' && memory?.place === 1),
    'its place',
  )
  for (const { name } of (await reasons()).get('Serving') ?? []) sim.delete({ resource: 'inferenceservices', name })
  await eventually(
    async () => (await agent.snapshot()).services.some(({ name, state }) => name === 'first' && state === 'ready'),
    { timeoutMs: 150_000, what: 'the first one to be ready' },
  )
  expect(await health.longest()).toBeLessThan(maxHeld)
}, 400_000)
