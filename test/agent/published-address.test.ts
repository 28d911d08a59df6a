import { execa } from 'execa'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { doctorReport } from '../../src/contract/doctor.ts'
import type { ServiceView } from '../../src/contract/service.ts'
import { AgentProcess } from '../support/agent-process.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { useControlPlane } from '../support/control-plane/control-plane.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { createNetworkNamespace, type NetworkNamespace } from '../support/network-namespace.ts'
import { askAsProgramsDo, askedService, clientOf, vectorsService } from '../support/openai-requests.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { missingNetworkNamespaces, skipWhen, useLlamaServer, useSmallModel } from '../support/skip.ts'

const cluster = useControlPlane()
const missing = missingNetworkNamespaces()
skipWhen(missing)
const llamaServer = useLlamaServer()
const smallModel = useSmallModel()

const shared = new AsyncDisposableStack()
/** Another machine, which reaches this one at the published address alone. */
let other: NetworkNamespace
let sim: KubeSim
beforeAll(async () => {
  if (missing !== undefined) return
  other = shared.use(await createNetworkNamespace())
  sim = shared.use(await KubeSim.start())
})
afterAll(() => shared.disposeAsync())

interface Scene extends AsyncDisposable {
  readonly world: AgentWorld
  start(...more: string[]): Promise<AgentProcess>
}

/** Agents as processes, one after the other on the same state folder; on the simulation unless told. */
async function scene(connection = sim.connection()): Promise<Scene> {
  await using stack = new AsyncDisposableStack()
  const world = stack.use(await AgentWorld.open(connection))
  const clientPort = await freePort()
  const folder = path.join(world.folder, 'agent')
  const kubeconfig = await readFile(await writeKubeconfig(path.join(world.folder, 'kubeconfig'), connection), 'utf8')
  let agent: AgentProcess | undefined
  stack.defer(async () => {
    await agent?.stop()
  })
  const owned = stack.move()
  return {
    world,
    async start(...more) {
      const args = ['--namespace', world.namespace, '--llama-server', sampleServerPath, '--allow-unsafe-extra-args']
      agent = await AgentProcess.start({
        folder,
        kubeconfig,
        args: [...args, '--host-ip', other.here, '--client-port', String(clientPort), ...more],
      })
      return agent
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

type Asked = readonly [status: number, code: string]

/** What the other machine is answered: the status, and the reason where it is refused. 0 where nobody takes the connection. */
async function askedThere(url: string, ...headers: readonly string[]): Promise<Asked> {
  const [command, ...args] = other.enter([
    ...[
      'curl',
      '-sS',
      '--max-time',
      '10',
      '-w',
      '\n%{http_code}',
      '-d',
      '{"messages":[{"role":"user","content":"a"}],"max_tokens":2}',
    ],
    ...[...headers.flatMap((header) => ['-H', header]), url],
  ])
  const { stdout } = await execa(command, args, { reject: false })
  const at = stdout.lastIndexOf('\n')
  const refused = /"code":"(\w+)"/.exec(stdout.slice(0, at))?.[1]
  return [Number(stdout.slice(at + 1)), refused ?? '']
}

const chatAt = (address: string, port: number | undefined): string => `http://${address}:${port}/v1/chat/completions`

async function statusHere(address: string, port: number | undefined): Promise<number> {
  try {
    const answer = await fetch(`http://${address}:${port}/health`)
    await answer.body?.cancel()
    return answer.status
  } catch {
    return 0
  }
}

/** The text of each file below it. */
async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  return Promise.all(files.map((file) => readFile(path.join(file.parentPath, file.name), 'latin1')))
}

const serving = (agent: AgentProcess): Promise<ServiceView> => agent.service('tiny', 'ready')

/** The other machine, loopback on this one. */
const reachedAt = async ({ port }: ServiceView): Promise<number[]> => [
  (await askedThere(chatAt(other.here, port)))[0],
  await statusHere('127.0.0.1', port),
]

describe('a model is reached', () => {
  test('at all addresses with --listen all, at the published one alone with published, and behind the gateway with gateway, each from its next start', async () => {
    await using there = await scene()
    await there.world.apply('tiny')
    const first = await there.start()
    const everywhere = await serving(first)
    expect(await reachedAt(everywhere)).toEqual([200, 200])
    // The command line of the program says where it listens: nothing is restarted for another setting.
    await first.run('settings', 'set', 'listen', 'published')
    expect(await serving(first)).toMatchObject({ pid: everywhere.pid, port: everywhere.port })
    await first.run('restart', 'tiny')
    const published = await eventually(async () => {
      const now = await serving(first)
      return now.pid !== everywhere.pid && now
    })
    expect([await reachedAt(published), await statusHere(other.here, published.port)]).toEqual([[200, 0], 200])
    await first.run('shutdown', '--keep-serving')
    await first.exited
    const second = await there.start('--listen', 'gateway')
    expect(await serving(second)).toMatchObject({ pid: published.pid, port: published.port })
    await second.run('restart', 'tiny')
    const behind = await eventually(async () => {
      const now = await serving(second)
      return now.pid !== published.pid && now
    })
    expect(await reachedAt(behind)).toEqual([200, 200])
    expect(await askedThere(chatAt(other.here, behind.port), 'Host: evil.example')).toEqual([421, 'bad_host'])
    expect(await askedThere(`http://${other.here}:${behind.port}/slots`)).toEqual([403, 'path_forbidden'])
    expect(await there.world.published('tiny')).toEqual({ address: other.here, port: behind.port, ready: true })
  })
})

test.each(['all', 'published', 'gateway'])(
  'a model is reached at an address of IPv6 with --listen %s, and published in a slice of that type',
  async (listen) => {
    await using there = await scene(cluster().connection)
    const { world } = there
    const file = path.join(world.folder, 'tiny.gguf')
    await writeLlamaGguf(file)
    await world.apply('tiny', { source: world.files.serve('/of-six.gguf', await readFile(file)).url })
    const address = other.hereOfSix
    const agent = await there.start('--host-ip', address, '--listen', listen, '--llama-server', llamaServer)
    const { port } = await serving(agent)
    expect(await askedThere(chatAt(`[${address}]`, port))).toEqual([200, ''])
    expect(await world.published('tiny')).toEqual({ address, port, ready: true })
    const found = await world.admin.list({ apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice' })
    expect(found).toMatchObject([{ addressType: 'IPv6' }])
    const { stdout } = await agent.run('doctor', '--json')
    const findings = Map.groupBy(doctorReport.parse(JSON.parse(stdout)).findings, ({ id }) => id)
    expect(['host-address', 'listeners'].map((id) => findings.get(id)?.[0]?.verdict)).toEqual(['pass', 'pass'])
    if (listen !== 'gateway') return
    expect(await askedThere(chatAt(`[${address}]`, port), 'Host: evil.example')).toEqual([421, 'bad_host'])
  },
)

const withAnnotations = (name: string, annotations: Readonly<Record<string, string>>) => ({ name, annotations })
const bearer = (key: string): string => `Authorization: Bearer ${key}`
const secret = (world: AgentWorld, token: string) =>
  world.admin.apply({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'quick-key' }, stringData: { token } })

test("a real model behind a key by OpenAI's own client and curl: whole, streamed, stopped, too long, many at once, cancelled, tools and embeddings", async () => {
  await using there = await scene(cluster().connection)
  const { world } = there
  const real = ['--llama-server', llamaServer, '--allowed-model-roots', path.dirname(smallModel)]
  const agent = await there.start('--listen', 'gateway', ...real)
  await world.applyModel('llama', { source: smallModel })
  await secret(world, 'key-one')
  for (const [name, spec] of Object.entries({ llama: askedService, vectors: vectorsService })) {
    await world.admin.apply({
      ...{ apiVersion: 'inference.llmkube.dev/v1alpha1', kind: 'InferenceService' },
      metadata: withAnnotations(name, { 'metalbar.dev/api-key-secret': 'quick-key' }),
      spec: { modelRef: 'llama', ...spec },
    })
  }
  const { port: enginePort } = await agent.service('llama', 'ready')
  const { port: vectorsPort } = await agent.service('vectors', 'ready')
  const chat = { url: `http://${other.here}:${enginePort}/v1`, model: 'llama' }
  const vectors = { url: `http://${other.here}:${vectorsPort}/v1`, model: 'vectors' }
  await askAsProgramsDo({ chat, vectors, enginePort, apiKey: 'key-one' })

  const refused = { status: 401, code: 'invalid_api_key', message: expect.stringContaining('API key') as string }
  const question = { model: 'llama', messages: [{ role: 'user' as const, content: 'hello' }], max_completion_tokens: 2 }
  const { completions } = clientOf(chat.url, 'key-two').chat
  await expect(completions.create(question)).rejects.toMatchObject(refused)
  await expect(completions.create({ ...question, stream: true })).rejects.toMatchObject(refused)
  const withoutKey = [[], [bearer('')], [bearer('key-two')], [bearer('key-one')]].map((headers) =>
    askedThere(chatAt(other.here, enginePort), ...headers),
  )
  expect((await Promise.all(withoutKey)).map(([status]) => status)).toEqual([401, 401, 401, 200])
})

/** Until the next one answers at this URL. */
async function killGateway(agent: AgentProcess, url: string): Promise<void> {
  const pids = (): unknown[] => agent.log.filter(({ msg }) => /the gateway$/.test(msg)).map(({ pid }) => pid)
  const before = await eventually(() => pids().at(-1))
  process.kill(Number(before), 'SIGKILL')
  await eventually(() => pids().at(-1) !== before)
  await eventually(async () => (await askedThere(url))[0] !== 0)
}

test('a service that names a Secret is open to who has its key alone, a new one counts within seconds, and none leaves the agent', async () => {
  await using there = await scene(cluster().connection)
  const { world } = there
  const first = await there.start('--listen', 'gateway', '--log-level', 'debug')
  await world.applyModel('tiny')
  const annotations = { 'metalbar.dev/api-key-secret': 'quick-key' }
  await world.admin.apply({
    ...{ apiVersion: 'inference.llmkube.dev/v1alpha1', kind: 'InferenceService' },
    ...{ metadata: withAnnotations('tiny', annotations), spec: { modelRef: 'tiny' } },
  })
  const { message } = await first.service('tiny', 'unready', 'NoApiKey')
  expect(message).toContain(`Secret ${world.namespace}/quick-key`)
  expect(await world.published('tiny')).toBeUndefined()
  await secret(world, 'key-one')
  const served = await serving(first)
  const url = chatAt(other.here, served.port)
  const statuses = async (...keys: string[]) =>
    Promise.all(keys.map(async (key) => (await askedThere(url, bearer(key)))[0]))
  expect(await statuses('key-one', 'key-two')).toEqual([200, 401])
  await secret(world, 'key-two')
  await eventually(async () => (await statuses('key-two'))[0] === 200)
  expect(await statuses('key-one', 'key-two', 'key-three')).toEqual([200, 200, 401])
  await killGateway(first, url)
  expect(await statuses('key-one', 'key-two', 'key-three')).toEqual([200, 200, 401])
  await first.run('shutdown', '--keep-serving')
  await first.exited
  // The next agent asks for the key too, although servers that it starts would be open to all.
  const second = await there.start()
  expect((await serving(second)).pid).toBe(served.pid)
  await killGateway(second, url)
  expect(await statuses('key-one', 'key-two', 'key-three')).toEqual([200, 200, 401])
  await world.admin.delete({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'quick-key' } })
  await world.untilNotReady('tiny')
  expect(await statuses('key-one', 'key-two')).toEqual([401, 401])
  if (served.pid !== undefined) process.kill(served.pid, 'SIGKILL')
  expect((await second.service('tiny', 'waiting', 'NoApiKey')).message).toContain('set --listen gateway')
  expect(await statuses('key-two')).toEqual([0])
  const told = [first.stderr, second.stderr, JSON.stringify(await second.snapshot())]
  const kept = await filesBelow(second.stateDir)
  expect([...told, ...kept].filter((text) => /key-(?:one|two)/.test(text))).toEqual([])
})

test('at another published address the gateway listens at once, and a server that listens at the last one itself is replaced', async () => {
  await using there = await scene()
  const { world } = there
  const next = await other.alsoHere()
  const agentAt = async (address: string, before?: AgentProcess): Promise<AgentProcess> => {
    await before?.run('shutdown', '--keep-serving')
    await before?.exited
    return there.start('--host-ip', address)
  }
  const publishedAt = async (agent: AgentProcess, address: string): Promise<ServiceView> => {
    await eventually(async () => (await world.published('tiny'))?.address === address)
    return serving(agent)
  }
  const askedAt = async (port: number | undefined): Promise<number[]> => [
    (await askedThere(chatAt(other.here, port)))[0],
    (await askedThere(chatAt(next, port)))[0],
  ]
  const first = await agentAt(other.here)
  await first.snapshotWhenUp()
  await first.run('settings', 'set', 'listen', 'gateway')
  await world.apply('tiny')
  const behind = await publishedAt(first, other.here)
  const second = await agentAt(next, first)
  const moved = await publishedAt(second, next)
  expect([moved.pid, await askedAt(moved.port)]).toEqual([behind.pid, [0, 200]])
  await second.run('settings', 'set', 'listen', 'published')
  await second.run('restart', 'tiny')
  const itself = await second.shows(
    ({ services: [one] }) => one?.pid !== moved.pid && one?.state === 'ready' && one,
    'it',
  )
  expect(await askedAt(itself.port)).toEqual([0, 200])
  const third = await agentAt(other.here, second)
  const replaced = await publishedAt(third, other.here)
  expect([replaced.pid !== itself.pid, await askedAt(replaced.port)]).toEqual([true, [200, 0]])
})
