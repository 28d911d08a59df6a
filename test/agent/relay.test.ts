import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { loadAllYaml } from '@kubernetes/client-node'
import { z } from 'zod'
import { AgentProcess, type AgentProcessOptions } from '../support/agent-process.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { useKubeSim, type World } from '../support/api-worlds/api-worlds.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import type { Connection } from '../support/controller-stand-in/kube-http.ts'
import { eventually } from '../support/eventually.ts'
import { FaultProxy } from '../support/fault-proxy.ts'
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

/** Changes which an InferenceService may name, as an update of the CRDs does. */
async function nameRuntimes({ http }: World, change: (before: string[]) => string[]): Promise<void> {
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
  { proxy, env }: Pick<AgentProcessOptions, 'env'> & { readonly proxy: FaultProxy },
): Promise<AgentProcess> {
  relays.ingressPort = await freePort()
  const ports = ['--ingress-port', String(relays.ingressPort)]
  const agent = await AgentProcess.start({
    folder: join(world.folder, 'agent'),
    args: ['--namespace', world.namespace, '--llama-server', sampleServerPath, ...ports],
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
  const roles = z.array(role).parse(loadAllYaml(text))
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
