import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { loadAll } from 'js-yaml'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { CommandInput } from '../../src/contract/commands.ts'
import { applicationYaml, type DeletionView, type ModelApplication } from '../../src/contract/model-application.ts'
import { AgentWorld, commandLineOf, inferenceService, untilGone } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { eventually } from '../support/eventually.ts'
import type { Rule } from '../support/kube-sim/access.ts'
import { patienceMs, type RunningAgent } from '../support/running-agent.ts'

const run = (agent: RunningAgent, input: CommandInput, requestId = randomUUID()) => agent.command(input, requestId)

const deletionOf = async ({ agent }: RunningAgent, service: { namespace: string; name: string }) =>
  (await agent.query({ name: 'deletion', service })) as DeletionView

const modelNamed = (name: string) => ({
  apiVersion: 'inference.llmkube.dev/v1alpha1',
  kind: 'Model',
  metadata: { name },
})

const specShape = z.object({ spec: z.record(z.string(), z.unknown()), metadata: z.looseObject({}) })

const roles = z
  .array(z.object({ metadata: z.object({ name: z.string() }), rules: z.array(z.custom<Rule>()) }))
  .parse(loadAll(await readFile('assets/rbac.yaml', 'utf8')))
const rulesOf = (...names: string[]): readonly Rule[] =>
  roles.filter(({ metadata }) => names.includes(metadata.name)).flatMap(({ rules }) => rules)

/** Without the optional rights. */
const served = rulesOf('metalbar-agent')

describe('on a real API server', () => {
  const api = useRealApiServer()
  const open = (options?: Parameters<typeof AgentWorld.open>[1]) => AgentWorld.open(api().connection, options)

  const asked = (world: AgentWorld, name = 'tiny', more: Partial<ModelApplication> = {}) => ({
    application: { namespace: world.namespace, name, source: world.modelUrl, ...more },
    service: { namespace: world.namespace, name },
  })

  const modelOf = (world: AgentWorld, name: string) => world.admin.get(modelNamed(name))
  const serviceOf = (world: AgentWorld, name: string) => world.admin.get(inferenceService(name))

  test('a model that is added is fetched and served; deleted, both its objects and its server go', async () => {
    await using world = await open()
    const agent = await world.startAgent()
    const { application, service } = asked(world, 'tiny-1.1b', { contextSize: 4_096 })

    const requestId = randomUUID()
    const added = await run(agent, { name: 'applyModel', application }, requestId)
    expect(added).toEqual({
      outcome: 'done',
      message: `${world.namespace}/tiny-1.1b was added: this machine fetches ${world.modelUrl} and serves it.`,
    })
    const { pid } = await agent.untilReady('tiny-1.1b')
    expect(await commandLineOf(pid)).toContain('--ctx-size 4096')

    const made = [await modelOf(world, 'tiny-1.1b'), await serviceOf(world, 'tiny-1.1b')].map((one) =>
      specShape.parse(one),
    )
    const told = loadAll(applicationYaml(application)).map((one) => specShape.parse(one))
    for (const [at, one] of made.entries()) expect(one).toMatchObject(told[at] ?? {})

    expect(await run(agent, { name: 'applyModel', application }, requestId)).toEqual(added)
    expect((await run(agent, { name: 'applyModel', application })).message).toContain(
      'exists already, exactly as asked for',
    )
    const other = { ...application, contextSize: 8_192 }
    expect(await run(agent, { name: 'applyModel', application: other })).toMatchObject({
      outcome: 'refused',
      message: saying(/There is an InferenceService .* already/),
    })

    const deletion = await deletionOf(agent, service)
    expect(deletion).toEqual({
      uid: agent.view('tiny-1.1b')?.uid,
      model: {
        name: 'tiny-1.1b',
        isDeleted: true,
        message: saying(/is deleted with it, since no other service uses it/),
      },
      message: saying(
        /is deleted in the cluster, whichever machine serves it\. The Model tiny-1\.1b is deleted with it/,
      ),
    })
    expect(await run(agent, { name: 'deleteModel', service, uid: deletion.uid })).toMatchObject({
      outcome: 'done',
      message: saying(/tiny-1\.1b was deleted\. Its Model tiny-1\.1b was deleted too/),
    })
    await untilGone(pid)
    await agent.untilNotShown('tiny-1.1b')
    await eventually(async () => (await modelOf(world, 'tiny-1.1b')) === undefined, { timeoutMs: patienceMs })
    const history = await agent.agent.query({ name: 'history', limit: 200, service })
    const kinds = 'entries' in history ? history.entries.map(({ kind }) => kind).reverse() : []
    expect([kinds[0], kinds.includes('deleted')]).toEqual(['added', true])
  })

  test('a Model of the same source is used as it is, and stays when the service is deleted; one of another source or with another Secret is left alone', async () => {
    await using world = await open()
    const agent = await world.startAgent()
    await world.applyModel('tiny')
    const { application, service } = asked(world)
    expect(await run(agent, { name: 'applyModel', application })).toMatchObject({
      outcome: 'done',
      message: saying(/It uses the existing Model tiny\.$/),
    })
    const { pid } = await agent.untilReady('tiny')
    expect((await deletionOf(agent, service)).model).toMatchObject({ isDeleted: false })
    expect(await run(agent, { name: 'deleteModel', service })).toMatchObject({
      outcome: 'done',
      message: saying(/The Model tiny stays: it was not added together with the service\.$/),
    })
    await untilGone(pid)
    expect(await modelOf(world, 'tiny')).toBeDefined()

    await world.applyModel('other', { source: `${world.modelUrl}?of=another` })
    expect(await run(agent, { name: 'applyModel', ...asked(world, 'other') })).toMatchObject({
      outcome: 'refused',
      by: 'agent',
      message: saying(/There is already a Model .*\/other with another source/),
    })
    await world.applyModel('cpu', { accelerator: 'cpu' })
    expect(await run(agent, { name: 'applyModel', ...asked(world, 'cpu') })).toMatchObject({
      outcome: 'refused',
      message: saying(/for the accelerator cpu instead of metal/),
    })
    await world.applyModel('private')
    await world.patchModel('private', { sourceSecretRef: { name: 'team' } })
    const saidOf = async (name: string, sourceSecret?: string) => {
      const { outcome, message } = await run(agent, { name: 'applyModel', ...asked(world, name, { sourceSecret }) })
      return `${outcome}: ${message}`
    }
    expect([await saidOf('private'), await saidOf('private', 'mine'), await saidOf('tiny', 'mine')]).toEqual([
      saying(/^refused: There is already a Model .*\/private with another Secret for its source \(team\)/),
      saying(/^refused: There is already a Model .*\/private with another Secret for its source \(team\)/),
      saying(/^refused: There is already a Model .*\/tiny with another Secret for its source \(none\)/),
    ])
    const left = ['other', 'cpu', 'private', 'tiny'].map((name) => serviceOf(world, name))
    expect(await Promise.all(left)).toEqual([undefined, undefined, undefined, undefined])
    expect(await saidOf('private', 'team')).toMatch(/^done: .*It uses the existing Model private\.$/)
  })

  test('a Model that another service uses too, or drafts with, stays', async () => {
    await using world = await open()
    const agent = await world.startAgent()
    const { application, service } = asked(world)
    await run(agent, { name: 'applyModel', application })
    await agent.untilReady('tiny')
    await world.applyService('drafting', {
      modelRef: 'none',
      spec: { replicas: 0, speculativeDecoding: { type: 'draft', draftModelRef: 'tiny' } },
    })
    expect((await deletionOf(agent, service)).model).toEqual({
      name: 'tiny',
      isDeleted: false,
      message: `The Model tiny stays: ${world.namespace}/drafting uses it too.`,
    })
    await world.applyService('beside', { modelRef: 'tiny', spec: { replicas: 0 } })
    expect(await run(agent, { name: 'deleteModel', service })).toMatchObject({
      outcome: 'done',
      message: saying(/2 other services use it, such as .*\/beside\.$/),
    })
    expect(await modelOf(world, 'tiny')).toBeDefined()
  })

  test('what the cluster does not allow is refused in its words, leaves nothing, and its YAML does the same for who may', async () => {
    const { namespace } = api()
    await using world = await open({ namespace })
    const nothing = await api().restricted(served)
    const agent = await world.startAgent({ connection: nothing.connection })
    await agent.untilCluster('live')
    const { application, service } = asked(world, 'refused')
    const refusal = await run(agent, { name: 'applyModel', application })
    expect(refusal).toMatchObject({
      outcome: 'refused',
      by: 'cluster',
      message: saying(
        /was not added: the cluster refused it \(models\..* is forbidden: User .*\)\. Nothing was created\.$/,
      ),
      yaml: applicationYaml(application),
    })
    await agent.stop()

    const models = { apiGroups: ['inference.llmkube.dev'], resources: ['models'], verbs: ['create', 'delete'] }
    const half = await api().restricted([...served, models])
    const second = await world.startAgent({ name: 'second', connection: half.connection })
    await second.untilCluster('live')
    expect(await run(second, { name: 'applyModel', application })).toMatchObject({
      outcome: 'refused',
      message: saying(/inferenceservices\..* is forbidden: .* The Model that was created for it was deleted again/),
    })
    expect(await modelOf(world, 'refused')).toBeUndefined()

    for (const one of loadAll('yaml' in refusal ? (refusal.yaml ?? '') : '') as never[]) await world.admin.apply(one)
    const { uid } = await second.untilReady('refused')
    expect(await run(second, { name: 'deleteModel', service, uid })).toMatchObject({
      outcome: 'refused',
      by: 'cluster',
      message: saying(/refused was not deleted: the cluster refused it \(inferenceservices\..* is forbidden/),
    })
  })

  test('the rights of assets/rbac.yaml are enough for all that an agent does', async () => {
    const { namespace } = api()
    await using world = await open({ namespace })
    const { connection } = await api().restricted(rulesOf('metalbar-agent', 'metalbar-models', 'metalbar-lease'))
    const agent = await world.startAgent({ connection })
    await agent.untilCluster('live')
    const { application, service } = asked(world, 'allowed')
    expect(await run(agent, { name: 'applyModel', application })).toMatchObject({ outcome: 'done' })
    const { pid } = await agent.untilReady('allowed')
    await eventually(async () => (await world.eventReasons('allowed')).length > 1, { timeoutMs: patienceMs })
    expect(await agent.agent.query({ name: 'events', service, limit: 5 })).toMatchObject({
      hasMore: expect.any(Boolean) as boolean,
    })
    for (const name of ['stop', 'start'] as const) {
      expect(await run(agent, { name, service })).toMatchObject({ outcome: 'done' })
    }
    await agent.untilReady('allowed')
    expect(await run(agent, { name: 'setContextSize', service, contextSize: 1_024 })).toMatchObject({ outcome: 'done' })
    await agent.until('allowed', (view) => view.state === 'ready' && view.pid !== pid)
    expect(await run(agent, { name: 'deleteModel', service })).toMatchObject({
      outcome: 'done',
      message: saying(/was deleted\. Its Model .* was deleted too/),
    })
    await agent.untilNotShown('allowed')
    await world.untilPublishedKinds('allowed')
    const said = JSON.stringify([agent.log.warnings, agent.log.infos])
    // The roles for the namespace itself are not bound here.
    expect(said.replaceAll(/namespaces \\\\?"[^"]*" is forbidden/g, '')).not.toMatch(/forbidden/)
  })

  test('what the schema of the cluster does not allow is refused in its words', async () => {
    await using world = await open()
    const agent = await world.startAgent()
    await agent.untilCluster('live')
    const { application } = asked(world, 'odd', { source: 'HF://org/repo' })
    expect(await run(agent, { name: 'applyModel', application })).toMatchObject({
      outcome: 'refused',
      by: 'cluster',
      message: saying(/Model\.inference\.llmkube\.dev "odd" is invalid: spec\.source: Invalid value/),
    })
  })

  test('what this machine would not serve is refused before anything is made', async () => {
    await using world = await open()
    const agent = await world.startAgent({ allowlist: ['dotted.name', 'other'] })
    await agent.untilCluster('live')
    await world.apply('dotted.name')
    await agent.untilReady('dotted.name')
    const said = async (application: ModelApplication) =>
      (await run(agent, { name: 'applyModel', application })).message
    const { application } = asked(world, 'other')
    expect(await said({ ...application, namespace: 'elsewhere' })).toContain('watches only the namespace')
    expect(await said({ ...application, name: 'unlisted' })).toContain('serves only dotted.name, other')
    expect(await said({ ...application, source: 'pvc://claim/x.gguf' })).toContain('is a volume inside')
    expect(await modelOf(world, 'other')).toBeUndefined()
  })

  test('a name whose Service another service has is refused', async () => {
    await using world = await open()
    const agent = await world.startAgent()
    await world.apply('a.b')
    await agent.untilReady('a.b')
    expect(await run(agent, { name: 'applyModel', ...asked(world, 'a-b') })).toMatchObject({
      outcome: 'refused',
      message: saying(/\/a\.b already has the Service name a-b/),
    })
    expect(await modelOf(world, 'a-b')).toBeUndefined()
  })

  test('a deletion names the tool that may bring the service back, and another service of the name is never deleted', async () => {
    await using world = await open()
    const agent = await world.startAgent()
    const { application, service } = asked(world)
    await run(agent, { name: 'applyModel', application })
    await agent.untilReady('tiny')
    await world.admin.patch(inferenceService('tiny'), {
      metadata: { labels: { 'app.kubernetes.io/managed-by': 'Helm' } },
    })
    expect((await deletionOf(agent, service)).message).toMatch(
      /^Helm manages it and may bring it back: delete it there\./,
    )
    expect(await run(agent, { name: 'deleteModel', service, uid: randomUUID() })).toMatchObject({
      outcome: 'refused',
      message: saying(/is now another InferenceService of the same name/),
    })
    expect(await serviceOf(world, 'tiny')).toBeDefined()
    expect(await run(agent, { name: 'deleteModel', service })).toMatchObject({
      outcome: 'done',
      message: saying(/tiny was deleted\. Helm manages it and may bring it back/),
    })
    await agent.untilNotShown('tiny')
    await eventually(async () => (await modelOf(world, 'tiny')) === undefined, { timeoutMs: patienceMs })
  })

  test('a context size is set in the cluster, and the server starts again with it', async () => {
    await using world = await open()
    const { agent, pid } = await world.serving('tiny', { spec: { contextSize: 8_192 } })
    const service = { namespace: world.namespace, name: 'tiny' }
    expect(await run(agent, { name: 'setContextSize', service, contextSize: 4_096 })).toEqual({
      outcome: 'done',
      message: `${world.namespace}/tiny is started with a context of 4,096 tokens (spec.contextSize).`,
    })
    const again = await agent.untilReadyAgain('tiny', pid)
    expect([await world.contextSize('tiny'), await commandLineOf(again.pid)]).toEqual([
      4_096,
      saying(/--ctx-size 4096/),
    ])
    expect((await run(agent, { name: 'setContextSize', service, contextSize: 4_096 })).message).toContain('already')

    expect(await run(agent, { name: 'setContextSize', service, contextSize: null })).toEqual({
      outcome: 'done',
      message: `${world.namespace}/tiny is started with the default context (spec.contextSize).`,
    })
    const unset = await agent.untilReadyAgain('tiny', again.pid)
    expect([await world.contextSize('tiny'), await commandLineOf(unset.pid)]).toEqual([
      undefined,
      expect.not.stringContaining('--ctx-size 4096') as string,
    ])
    expect((await run(agent, { name: 'setContextSize', service, contextSize: null })).message).toContain(
      'has the default context already',
    )

    await run(agent, { name: 'setContextSize', service, contextSize: 4_096 })
    await world.patchSpec('tiny', { extraArgs: ['--ctx-size', '1024'] })
    expect(await run(agent, { name: 'setContextSize', service, contextSize: 512 })).toMatchObject({
      outcome: 'refused',
      message: saying(/is set in its spec\.extraArgs, which wins/),
    })
    expect(await world.contextSize('tiny')).toBe(4_096)
  })
})

const saying = (text: RegExp): string => expect.stringMatching(text) as string
