import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { loadAll } from 'js-yaml'
import { z } from 'zod'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import type { AgentSnapshot } from '../../src/contract/snapshot.ts'
import { AgentProcess, type AgentProcessOptions } from '../support/agent-process.ts'
import { AgentWorld, fakeGguf, untilGone } from '../support/agent-world.ts'
import { useKubeSim, type World } from '../support/api-worlds/api-worlds.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { type Connection, KubeHttp } from '../support/controller-stand-in/kube-http.ts'
import { eventually } from '../support/eventually.ts'
import { FaultProxy } from '../support/fault-proxy.ts'
import { everything } from '../support/kube-sim/access.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { freePort } from '../support/free-port.ts'
import { Client, Controllers, Relays } from '../support/relayed-world.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { statedInterfaces } from '../support/stated-interfaces.ts'

// The CRDs of the real API server are those of all tests that run at the same time.
describe('on kube-sim', () => {
  const api = useKubeSim()

  test('where LLMKube is updated to 0.10 its relay alone reaches the model soon, and where it is set back the address of this machine again: no request fails, and no model is started again', async () => {
    await using world = await AgentWorld.open(api().connection, { controller: false, namespace: api().namespace })
    await using relays = new Relays(world)
    await using controllers = new Controllers(api().connection, world, relays)
    await controllers.be('0.9')
    await using proxy = await proxyTo(await restricted(api()))
    await using agent = await agentBehind(relays, world, { proxy })
    const { ingressPort } = relays
    const { pid } = await agent.service('tiny', 'ready')
    await using client = new Client(api().connection, world)
    await client.served(5)
    expect(await world.publishedKinds('tiny-agent')).toEqual([])

    await controllers.be('0.10')
    await nameRuntimes(api(), (before) => [...before, 'tensorfold'])
    proxy.cutWatches()
    await eventually(() => world.publishedKinds('tiny').then((kinds) => kinds.join() === 'Service'), {
      what: 'nothing but the relay',
      timeoutMs: 60_000,
    })
    await client.served(20)
    expect(relays.answered).toBeGreaterThan(0)
    expect((await agent.service('tiny', 'ready')).message).toMatch(
      `Serving through LLMKube's relay, which reaches this machine at 192.0.2.10:${ingressPort}.`,
    )

    await controllers.be('0.9')
    await nameRuntimes(api(), (before) => before.filter((one) => one !== 'tensorfold'))
    proxy.cutWatches()
    await eventually(async () => (await world.publishedKinds('tiny-agent')).length === 0, {
      what: 'the end of the ingress',
      timeoutMs: 60_000,
    })
    await client.served(20)
    expect((await world.publishedKinds('tiny')).toSorted()).toEqual(['EndpointSlice', 'Endpoints', 'Service'])
    expect(client.failures).toEqual([])
    const denied = agent.log.filter((line) => JSON.stringify(line).includes('forbidden'))
    // Its Lease is a right of its own.
    expect(denied.filter(({ msg }) => msg !== 'lease not written')).toEqual([])
    expect((await agent.service('tiny', 'ready')).pid).toBe(pid)
  })

  test('a model that only the relay reaches keeps its server, and the next one listens on this machine alone', async () => {
    await using world = await AgentWorld.open(api().connection, { controller: false })
    await using relays = new Relays(world)
    await using controllers = new Controllers(api().connection, world, relays)
    await controllers.be('0.10')
    await using proxy = await proxyTo(api().connection)
    await using agent = await agentBehind(relays, world, {
      proxy,
      // The published address is one of this machine's.
      env: { NODE_OPTIONS: statedInterfaces({ en0: '192.0.2.10' }) },
    })
    const { pid, port = 0 } = await agent.service('tiny', 'ready')
    expect(await answersAt('127.0.0.2', port)).toBe(true)
    await nameRuntimes(api(), (before) => [...before, 'tensorfold'])
    proxy.cutWatches()
    await eventually(() => world.publishedKinds('tiny').then((kinds) => kinds.join() === 'Service'), {
      what: 'nothing but the relay',
      timeoutMs: 60_000,
    })
    expect((await agent.service('tiny', 'ready')).pid).toBe(pid)
    await agent.run('restart', 'tiny')
    const next = await eventually(async () => {
      const now = await agent.service('tiny', 'ready')
      return now.pid === pid ? undefined : now
    })
    expect(await Promise.all(['127.0.0.1', '127.0.0.2'].map((host) => answersAt(host, next.port ?? 0)))).toEqual([
      true,
      false,
    ])
  })
})

test('credentials that expire close no API key, no relay and no slice, and hold up no download and no stop; what the cluster was not told is told with good ones', async ({
  skip,
}) => {
  const own = hostPlatform()
    .interfaces()
    .find(({ family, internal }) => family === 'IPv4' && !internal)
  if (!own) return skip('needs an address that the gateway can listen at')
  const user = { name: 'mac', token: 'token-of-the-mac', rules: everything }
  await using sim = await KubeSim.start({ users: [user] })
  await using world = await AgentWorld.open(sim.connection(), { controller: false })
  await using relays = new Relays(world)
  await using controllers = new Controllers(sim.connection(), world, relays)
  const http = new KubeHttp(sim.connection())
  await controllers.be('0.10')
  await nameRuntimes({ http }, (before) => [...before, 'tensorfold'])
  http.close()
  await using proxy = await proxyTo(sim.connection('mac'))
  await using agent = await agentBehind(relays, world, {
    proxy,
    args: ['--listen', 'gateway', '--host-ip', own.address, '--allow-unsafe-extra-args'],
  })
  await world.admin.create({
    ...{ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'key' }, stringData: { token: 'right' } },
  })
  await world.apply('keyed', { annotations: { 'metalbar.dev/api-key-secret': 'key' } })
  await world.apply('leaving', { script: { tokenMs: 50 } })
  const file = world.files.serve('/slow.gguf', fakeGguf, { paced: true })
  await world.apply('loading', { source: file.url })
  const isByRelay = ({ services }: AgentSnapshot, name: string) =>
    services.some((one) => one.name === name && one.message.includes('Serving through LLMKube'))
  await agent.shows((now) => isByRelay(now, 'keyed') && isByRelay(now, 'leaving'), 'both behind relays')
  await agent.service('loading', 'fetching')
  const ask = async (name: string, key: string, more: object) => {
    const { port } = (await world.published(`${name}-relay`)) ?? {}
    return fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }], ...more }),
    })
  }
  const statuses = async () => {
    const answers = await Promise.all(['right', 'wrong'].map((key) => ask('keyed', key, { max_tokens: 1 })))
    return answers.map(({ status }) => status)
  }
  const { pid } = await agent.service('keyed', 'ready')
  const states = () => agent.log.filter(({ msg, key }) => msg === 'state' && key === `${world.namespace}/keyed`)
  const [before, slice] = [states(), await world.slice('keyed-agent')]
  const leaving = (await agent.service('leaving', 'ready')).pid ?? 0
  expect(await statuses()).toEqual([200, 401])
  const streamed = await ask('leaving', '', { max_tokens: 100, stream: true })
  await world.patchSpec('leaving', { replicas: 0 })
  await agent.service('leaving', 'stopping')

  sim.users = []
  sim.requests.clear()
  proxy.cutWatches()
  file.allow(fakeGguf.length)
  const { message } = await agent.shows(
    ({ cluster }) => cluster.state === 'unauthorized' && cluster,
    'credentials that are refused',
  )
  expect(message).toMatch(/^The cluster does not accept these credentials \(.*\); log in again or choose another/)
  const refused = (name: string) => sim.requests.count({ verb: 'get', resource: 'secrets', name })
  await eventually(() => refused('key') > 2 && refused('llmkube-metal-relay') > 2)
  expect(await statuses()).toEqual([200, 401])
  expect(await streamed.text()).toContain('[DONE]')
  await untilGone(leaving)
  await agent.shows(
    ({ services }) => services.some(({ name, pid }) => name === 'loading' && pid !== undefined),
    'the server of what was downloaded',
  )

  sim.users = [{ ...user, token: 'another' }]
  await writeKubeconfig(agent.kubeconfigFile, { ...proxy.connection, token: 'another' })
  await agent.shows((now) => isByRelay(now, 'loading'), 'it behind its relay')
  await world.untilPublishedKinds('leaving-agent')
  expect(await world.slice('keyed-agent')).toMatchObject({
    metadata: { uid: slice?.metadata.uid },
    endpoints: slice?.['endpoints'],
  })
  expect([(await agent.service('keyed', 'ready')).pid, states()]).toEqual([pid, before])
})

/** Changes which an InferenceService may name, as an update of the CRDs does. */
async function nameRuntimes({ http }: Pick<World, 'http'>, change: (before: string[]) => string[]): Promise<void> {
  const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/inferenceservices.inference.llmkube.dev'
  const { body } = await http.request({ path })
  const { spec } = definition.parse(body)
  for (const { schema } of spec.versions) {
    const { runtime } = schema.openAPIV3Schema.properties.spec.properties
    runtime.enum = change(runtime.enum)
  }
  const { status } = await http.request({
    ...{ method: 'PATCH', path, contentType: 'application/merge-patch+json' },
    body: { spec: { versions: spec.versions } },
  })
  expect(status).toBe(200)
}

const properties = <T extends z.ZodRawShape>(shape: T) => z.looseObject({ properties: z.looseObject(shape) })
const definition = z.object({
  spec: z.object({
    versions: z.array(
      z.looseObject({
        schema: z.object({
          openAPIV3Schema: properties({ spec: properties({ runtime: z.looseObject({ enum: z.array(z.string()) }) }) }),
        }),
      }),
    ),
  }),
})

/** To the API server; an agent whose watches it cuts looks at the CRDs again at once, and not only after half a minute. */
const proxyTo = (connection: Connection): Promise<FaultProxy> =>
  FaultProxy.start({ connection, watchLifeMs: () => 600_000 })

/** An agent that the relays reach, and a model for it to serve. */
async function agentBehind(
  relays: Relays,
  world: AgentWorld,
  { proxy, env, args = [] }: Pick<AgentProcessOptions, 'env' | 'args'> & { readonly proxy: FaultProxy },
): Promise<AgentProcess> {
  relays.ingressPort = await freePort()
  const ports = ['--ingress-port', String(relays.ingressPort)]
  const agent = await AgentProcess.start({
    folder: join(world.folder, 'agent'),
    args: ['--namespace', world.namespace, '--llama-server', sampleServerPath, ...ports, ...args],
    kubeconfig: await readFile(await writeKubeconfig(join(world.folder, 'kubeconfig'), proxy.connection), 'utf8'),
    ...(env && { env }),
  })
  await world.apply('tiny')
  return agent
}

const answersAt = (host: string, port: number): Promise<boolean> =>
  fetch(`http://${host}:${port}/health`).then(
    ({ ok }) => ok,
    () => false,
  )

/** A user who may do what the two roles of assets/rbac.yaml say, and nothing else. */
async function restricted(api: World): Promise<Connection> {
  const text = await readFile(join(import.meta.dirname, '../../assets/rbac.yaml'), 'utf8')
  const roles = z.array(role).parse(loadAll(text))
  const rules = roles.filter(({ metadata: { name } }) => name === 'metalbar-agent' || name === 'metalbar-relay')
  const { connection } = await api.restricted(rules.flatMap((one) => one.rules))
  return connection
}

const role = z.object({
  metadata: z.object({ name: z.string() }),
  rules: z.array(
    z.object({
      apiGroups: z.array(z.string()),
      resources: z.array(z.string()),
      resourceNames: z.array(z.string()).exactOptional(),
      verbs: z.array(z.string()),
    }),
  ),
})
