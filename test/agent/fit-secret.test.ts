import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { ModelApplication } from '../../src/contract/model-application.ts'
import { query } from '../../src/contract/queries.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { useControlPlane } from '../support/control-plane/control-plane.ts'
import { startFakeHub } from '../support/fake-hub.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { throwAwayIdentity } from '../support/kube-sim/tls.ts'
import { StatedMemory } from '../support/stated-memory.ts'

const cluster = useControlPlane()
const token = 'hf_T0kenThatOnlyFitReads'

const rules = [
  { apiGroups: ['inference.llmkube.dev'], resources: ['*'], verbs: ['*'] },
  { apiGroups: ['discovery.k8s.io', 'events.k8s.io'], resources: ['*'], verbs: ['*'] },
  { apiGroups: [''], resources: ['services', 'endpoints', 'events', 'pods'], verbs: ['*'] },
  { apiGroups: [''], resources: ['secrets'], resourceNames: ['right', 'keyless', 'missing', 'team'], verbs: ['get'] },
]

test('a private source is sized with the token of a Secret of its namespace, which is asked of anew for each Secret, told nowhere, and named by the Model that is added', async () => {
  const identity = await throwAwayIdentity()
  const { admin, namespace, connection } = cluster()
  await using world = await AgentWorld.open(connection, { namespace, controller: false })
  await using hub = await startFakeHub({ identity, tokens: [token] })
  const file = join(world.folder, 'tiny.gguf')
  await writeLlamaGguf(file, { context: 16_384 })
  await hub.addRepo('org/private', { 'tiny-Q8_0.gguf': await readFile(file) }, { private: true, grantedTo: [token] })
  const caFile = join(world.folder, 'ca.pem')
  await writeFile(caFile, identity.certificate)
  const { kubeconfig } = await cluster().restrictedKubeconfig(rules)
  const agent = await world.startAgent({
    kubeconfig,
    memory: new StatedMemory(),
    settings: { hubEndpoint: hub.endpoint, caFile },
  })
  await agent.untilCluster('live')
  const secret = (name: string, stringData: Record<string, string>) =>
    admin.create({ apiVersion: 'v1', kind: 'Secret', metadata: { name }, stringData })
  await secret('right', { HF_TOKEN: token })
  await secret('forbidden', { HF_TOKEN: token })
  await secret('keyless', { password: token })
  const ask = (sourceSecret: string | undefined) =>
    agent.agent.query(query.parse({ name: 'fit', source: 'org/private', namespace, sourceSecret })).then(
      (view) => JSON.stringify(view),
      (error: unknown) => String(error).replaceAll(namespace, 'NS'),
    )
  const before = [await ask(undefined), await ask('missing'), await ask('forbidden'), await ask('keyless')]
  const sentBefore = hub.requests.filter(({ headers }) => headers.authorization !== undefined)
  const fitted = await ask('right')
  // What the right one opened is not kept for who names none, or another.
  const after = [await ask(undefined), await ask('missing')]
  expect({ before, after, sentBefore }).toEqual({
    before: [
      expect.stringMatching(/org\/private/) as string,
      expect.stringMatching(/Secret NS\/missing.* does not exist/) as string,
      expect.stringMatching(/Secret NS\/forbidden.* cannot be read \(.*forbidden/) as string,
      expect.stringMatching(/Secret NS\/keyless.* has no Hugging Face token \(its keys: password\)/) as string,
    ],
    after: [before[0], before[1]],
    sentBefore: [],
  })
  expect(JSON.parse(fitted)).toMatchObject({ kind: 'model', architecture: 'llama' })
  const application: ModelApplication = { namespace, name: 'tiny', source: 'hf://org/private', sourceSecret: 'right' }
  const result = await agent.command({ name: 'applyModel', application })
  const model = { apiVersion: 'inference.llmkube.dev/v1alpha1', kind: 'Model', metadata: { name: 'tiny' } }
  const made = await admin.get(model)
  expect([result.outcome, made]).toMatchObject(['done', { spec: { sourceSecretRef: { name: 'right' } } }])
  expect(new Set(hub.requests.map(({ server, headers }) => `${server} ${headers.authorization ?? 'nothing'}`))).toEqual(
    new Set(['hub nothing', `hub Bearer ${token}`, 'cdn nothing']),
  )
  const told = JSON.stringify([
    before,
    after,
    fitted,
    result,
    made,
    agent.snapshot,
    agent.log.infos,
    agent.log.warnings,
  ])
  expect(told).not.toContain(token)
})
