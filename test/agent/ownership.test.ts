import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { AgentWorld, commandLineOf, hostIp, inferenceService, untilGone } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { eventually } from '../support/eventually.ts'

describe('whose an InferenceService is', () => {
  const api = useRealApiServer()
  const open = (options?: Parameters<typeof AgentWorld.open>[1]) => AgentWorld.open(api().connection, options)

  describe('its Model', () => {
    test('missing is told and waited for', async () => {
      await using world = await open()
      const agent = await world.startAgent()
      await world.applyService('tiny')
      const view = await agent.until('tiny', ({ reason }) => reason === 'ModelMissing')
      expect(view).toMatchObject({
        state: 'waiting',
        message: `There is no Model "tiny" in namespace ${world.namespace}; create it, or correct spec.modelRef.`,
      })
      await eventually(async () => (await world.condition('tiny')) === 'False ModelMissing')
      await eventually(async () => (await world.eventReasons('tiny')).includes('Refused'))
      expect(await world.publishedKinds('tiny')).toEqual([])

      await world.applyModel('tiny')
      await agent.untilReady('tiny')
      await eventually(async () => (await world.condition('tiny')) === 'True Serving')
    })

    test('deleted takes nothing from the server that has it in memory', async () => {
      await using world = await open()
      const { agent, pid, port } = await world.serving('tiny')
      await world.deleteModel('tiny')
      const view = await agent.until('tiny', ({ message }) => message.includes('There is no Model'))
      expect(view).toMatchObject({ state: 'ready', pid })
      await world.patchSpec('tiny', { contextSize: 1024 })
      await eventually(async () => {
        const { conditions } = await world.status('tiny')
        const generation = (await world.admin.get(inferenceService('tiny')))?.metadata.generation
        return conditions.some((one) => one.type === 'MetalAgent' && one['observedGeneration'] === generation)
      })
      expect(agent.view('tiny')).toMatchObject({ state: 'ready', pid })
      expect(await world.published('tiny')).toEqual({ address: hostIp, port, ready: true })
    })

    test('no longer for metal: slice, Endpoints, process and our condition go, the Service stays for the controller', async () => {
      await using world = await open()
      const { agent, pid } = await world.serving('tiny')
      await eventually(async () => (await world.condition('tiny')) === 'True Serving')
      await world.applyModel('tiny', { accelerator: 'cpu' })
      await untilGone(pid)
      await world.untilPublishedKinds('tiny', 'Service')
      await agent.untilNotShown('tiny')
      await eventually(async () => (await world.condition('tiny')) === undefined, { what: 'no condition' })

      await world.applyModel('tiny', { accelerator: 'metal' })
      await agent.untilReady('tiny')
      await eventually(async () => (await world.condition('tiny')) === 'True Serving')
    })

    test('for another accelerator: not one write', async () => {
      await using world = await open({ controller: false })
      const agent = await world.startAgent()
      await world.applyModel('gpu', { accelerator: 'cuda' })
      const before = await world.applyService('gpu')
      await world.apply('tiny')
      await agent.untilReady('tiny')
      await world.deleteService('tiny')
      await agent.untilNotShown('tiny')
      expect(agent.view('gpu')).toBeUndefined()
      expect(await world.admin.get(inferenceService('gpu'))).toEqual(before)
      expect(await world.publishedKinds('gpu')).toEqual([])
      expect(await world.eventReasons('gpu')).toEqual([])
    })
  })

  describe('its name', () => {
    test('that becomes the Service name of an older one is refused, naming that one', async () => {
      await using world = await open()
      const agent = await world.startAgent()
      await world.apply('a.b')
      const { pid } = await agent.untilReady('a.b')
      await untilTheNextSecondAfter(await world.admin.get(inferenceService('a.b')))
      await world.apply('a-b')
      const view = await agent.until('a-b', 'refused')
      expect(view).toMatchObject({
        reason: 'ServiceNameTaken',
        message: 'a-b and a.b both become the Service name "a-b", and a.b was first; rename one of them.',
      })
      expect(agent.view('a.b')).toMatchObject({ state: 'ready', pid })

      await world.deleteService('a-b')
      await agent.untilNotShown('a-b')
      expect(await world.published('a-b')).toMatchObject({ ready: true })
      expect(await world.publishedKinds('a-b')).toEqual(['Service', 'EndpointSlice', 'Endpoints'])
      expect(agent.log.warnings.filter(({ message }) => message !== 'state')).toEqual([])
    })

    test('is given by an older one that is deleted to the one that waits for it, and nothing of the older one is left', async () => {
      // Nothing but the deletion itself wakes the one that waits: no controller writes its status.
      await using world = await open({ controller: false })
      const agent = await world.startAgent()
      await world.apply('a.b')
      const { pid } = await agent.untilReady('a.b')
      await untilTheNextSecondAfter(await world.admin.get(inferenceService('a.b')))
      await world.apply('a-b')
      await agent.until('a-b', 'refused')

      await world.deleteService('a.b')
      const { port } = await agent.untilReady('a-b')
      await untilGone(pid)
      await agent.untilNotShown('a.b')
      expect(await world.published('a-b')).toEqual({ address: hostIp, port, ready: true })
      expect(await world.publishedKinds('a-b')).toEqual(['Service', 'EndpointSlice', 'Endpoints'])
      expect(agent.log.warnings.filter(({ message }) => message !== 'state')).toEqual([])
    })

    test('may be the same in two namespaces', async () => {
      await using world = await open()
      const other = await world.createNamespace()
      await world.startController(other)
      const name = `twin-${randomBytes(4).toString('hex')}`
      // The server may be shared: this agent sees all namespaces and serves these two objects alone.
      const agent = await world.startAgent({ everyNamespace: true, allowlist: [name] })
      await world.apply(name)
      await world.apply(name, { namespace: other, spec: { contextSize: 1024 } })
      const here = await agent.untilReady(name)
      const there = await agent.untilReady(name, other)
      expect(await world.published(name)).toMatchObject({ port: here.port })
      expect(await world.published(name, other)).toMatchObject({ port: there.port })
      expect(await commandLineOf(here.pid)).toContain('--ctx-size 2048')
      expect(await commandLineOf(there.pid)).toContain('--ctx-size 1024')
      await world.admin.delete({
        ...inferenceService(name),
        metadata: { name, namespace: other },
      })
      await untilGone(there.pid)
      expect(agent.view(name)).toMatchObject({ state: 'ready', pid: here.pid })
    })

    test("taken by somebody else's Service: nothing is published beside it, and a person is told what to delete", async () => {
      await using world = await open()
      const agent = await world.startAgent()
      const theirs = await world.admin.create({
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name: 'tiny' },
        spec: { selector: { app: 'web' }, ports: [{ port: 80 }] },
      })
      await world.apply('tiny')
      const view = await agent.until('tiny', 'refused')
      expect(view).toMatchObject({
        reason: 'ServiceNameTaken',
        message: `Service ${world.namespace}/tiny has the name this InferenceService needs but selects Pods of its own; delete it (kubectl -n ${world.namespace} delete service tiny) or rename the InferenceService.`,
      })
      expect(view.retryAt).toBeDefined()
      await eventually(async () => (await world.condition('tiny')) === 'False ServiceNameTaken')
      await eventually(async () => (await world.eventReasons('tiny')).includes('EndpointNameConflict'))
      expect(await world.publishedKinds('tiny')).toEqual(['Service'])
      expect(await world.service('tiny')).toEqual(theirs)
      expect(agent.starts).toBe(0)
    })
  })

  describe('with two agents', () => {
    test('one serves and the other says who; when the first stops, the second serves', async () => {
      await using world = await open()
      const { agent: first, port } = await world.serving('tiny', { name: 'studio' })
      const second = await world.startAgent({ name: 'mini', hostIp: '192.0.2.8' })
      const view = await second.until('tiny', 'foreign')
      expect(view).toMatchObject({
        reason: 'ClaimedElsewhere',
        message: expect.stringMatching(/^InferenceService \S+ is served by studio; /) as string,
      })
      expect(second.starts).toBe(0)
      expect(await world.published('tiny')).toEqual({ address: hostIp, port, ready: true })
      expect((await world.eventReasons('tiny')).filter((reason) => reason === 'Claimed')).toHaveLength(1)

      await first.stop()
      const { port: nextPort } = await second.untilReady('tiny')
      expect(await world.published('tiny')).toEqual({ address: '192.0.2.8', port: nextPort, ready: true })
      await eventually(async () => (await world.status('tiny')).phase === 'Ready')
    })

    test('a race for a new service has one winner and one server', async () => {
      await using world = await open()
      const agents = [await world.startAgent({ name: 'studio' }), await world.startAgent({ name: 'mini' })]
      await world.apply('tiny')
      const states = await eventually(() => {
        const both = agents.map((agent) => agent.view('tiny')?.state).sort()
        return both[0] === 'foreign' && both[1] === 'ready' ? both : undefined
      })
      expect(states).toEqual(['foreign', 'ready'])
      expect(agents.reduce((sum, { starts }) => sum + starts, 0)).toBe(1)
    })

    test('an agent keeps its hands off what its allowlist does not name, also where nobody serves it', async () => {
      await using world = await open()
      const { agent: first } = await world.serving('tiny', { name: 'studio' })
      await first.stop()
      const released = await world.slice('tiny')

      await world.serving('other', { name: 'mini', allowlist: ['other'] })
      expect(await world.slice('tiny')).toEqual(released)
    })
  })

  test("a Service that another agent left for an InferenceService that is gone is nobody's business", async () => {
    await using world = await open()
    const labels = { 'llmkube.ai/managed-by': 'metal-agent', 'llmkube.ai/inference-service': 'old' }
    const metadata = { name: 'old', labels }
    const left = await world.admin.create({
      apiVersion: 'v1',
      kind: 'Service',
      metadata,
      spec: { ports: [{ name: 'http', port: 8080 }] },
    })
    const { agent } = await world.serving('tiny')
    expect(agent.log.warnings).toEqual([])
    expect(await world.service('old')).toEqual(left)
  })
})

/** Creation times have whole seconds: within one second no object is older. */
async function untilTheNextSecondAfter(
  object: { readonly metadata: { readonly creationTimestamp?: string | undefined } } | undefined,
) {
  const created = Date.parse(object?.metadata.creationTimestamp ?? '')
  await eventually(() => Date.now() >= created + 1_000)
}
