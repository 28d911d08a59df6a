import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, inject, test, vi } from 'vitest'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { deniedSentence } from '../../src/agent-core/platform/local-network.ts'
import { errorCode } from '../../src/agent-core/util/error-code.ts'
import { AgentWorld, commandLineOf, hostIp, roomForOne, untilGone } from '../support/agent-world.ts'
import { ApiServer } from '../support/control-plane/control-plane.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { eventually } from '../support/eventually.ts'
import { everything } from '../support/kube-sim/access.ts'
import { freePort } from '../support/free-port.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { skipWhen } from '../support/skip.ts'
import { StatedMemory, statedPlatform } from '../support/stated-memory.ts'

// Each has a cluster and agents of its own and waits most of its time, so all run at once.
describe.concurrent('an outage of a real API server', () => {
  skipWhen(missingControlPlane())
  test('stops no server, a crash meanwhile restarts here, and the slice is true again afterwards', async () => {
    await using server = await ApiServer.start()
    await using world = await AgentWorld.open(server.connection)
    const agent = await world.startAgent()
    await world.apply('steady')
    await world.apply('crashes')
    const steady = await agent.untilReady('steady')
    const before = await agent.untilReady('crashes')

    await server.stop()
    await agent.untilCluster('stale')
    expect(agent.agent.readiness().ready).toBe(true)
    process.kill(before.pid, 'SIGKILL')
    const { pid = 0, port } = await agent.until(
      'crashes',
      ({ pid, steps }) => pid !== before.pid && steps.healthy.status === 'done',
    )
    expect(agent.view('crashes')).toMatchObject({ restarts: 1 })
    // Pods are still sent there.
    expect(port).toBe(before.port)
    expect(agent.view('steady')).toMatchObject({ state: 'ready', pid: steady.pid })
    expect(await commandLineOf(steady.pid)).toBeDefined()

    await server.restart()
    await agent.untilCluster('live')
    await eventually(async () => {
      expect(await world.published('crashes')).toEqual({ address: hostIp, port, ready: true })
      return true
    })
    expect(agent.view('crashes')).toMatchObject({ pid })
    expect(await world.published('steady')).toEqual({ address: hostIp, port: steady.port, ready: true })
    await eventually(async () => (await world.condition('crashes')) === 'True Serving')
  })
})

test.concurrent(
  'credentials that expire are read again from the kubeconfig, also while the watches are still open',
  async () => {
    // Not the administrator, so that it alone can lose its rights.
    const user = { name: 'agent', token: 'first-token', rules: everything }
    await using sim = await KubeSim.start({ users: [user] })
    await using world = await AgentWorld.open(sim.connection())
    const { agent, pid } = await world.serving('tiny', { connection: sim.connection('agent') })

    sim.users = [{ ...user, token: 'second-token' }]
    await writeKubeconfig(agent.kubeconfig, sim.connection('agent'))
    await world.patchSpec('tiny', { contextSize: 1024 })
    const { port } = await agent.untilReadyAgain('tiny', pid)
    expect(await world.published('tiny')).toEqual({ address: hostIp, port, ready: true })
    expect(agent.log.warnings).toEqual([])
  },
)

test.concurrent(
  'where macOS keeps the agent from the local network, that is why its cluster is away, until it is allowed',
  async () => {
    await using sim = await KubeSim.start()
    await using world = await AgentWorld.open(sim.connection())
    const denied = deniedSentence('127.0.0.1')
    // As a Mac answers of a connection that its permission forbids; here nobody listens there.
    const memory = new StatedMemory(
      statedPlatform(hostPlatform(), {
        whyUnreachable: (error) => Promise.resolve(errorCode(error) === 'ECONNREFUSED' ? denied : undefined),
      }),
    )
    const nobody = `http://127.0.0.1:${await freePort()}`
    const agent = await world.startAgent({ memory, settings: { hubEndpoint: nobody } })
    await agent.untilCluster('live')
    await sim.stop()
    const away = await eventually(() => {
      const { cluster } = agent.snapshot
      return cluster.cause === undefined ? false : cluster
    })
    await sim.start()
    const back = await agent.untilCluster('live')
    await world.apply('tiny', { source: `${nobody}/tiny.gguf` })
    await agent.until('tiny', ({ message }) => message.includes(`tiny.gguf cannot be reached: ${denied}`))
    await world.apply('listed', { source: 'hf://org/repo' })
    await agent.until('listed', ({ message }) => message.includes(`${nobody} cannot be reached: ${denied}`))
    expect([away, back]).toMatchObject([
      { state: 'stale', message: denied, cause: 'localNetwork' },
      { state: 'live', message: 'Connected' },
    ])
    expect(back.cause).toBeUndefined()
  },
)

test.concurrent('what waits for the cluster waits no longer than until it is back', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const { agent, pid } = await world.serving('tiny')
  const busy = { kind: 'status', code: 503, retryAfterSeconds: 3_600 } as const
  const refused = sim.faults.add({ on: { verb: 'patch', resource: 'endpointslices' }, fault: busy })
  process.kill(pid, 'SIGKILL')
  await eventually(() => refused.hits === 1)
  await sim.stop()
  await agent.untilCluster('stale')
  await sim.start()
  const { port } = await agent.untilReadyAgain('tiny', pid)
  expect(await world.published('tiny')).toEqual({ address: hostIp, port, ready: true })
})

test.concurrent(
  'a server that ended before it could be withdrawn is followed by one where pods are still sent',
  async () => {
    await using sim = await KubeSim.start()
    await using world = await AgentWorld.open(sim.connection())
    const { agent, pid, port } = await world.serving('tiny')
    const forbidden = { kind: 'status', code: 403 } as const
    const on = { verb: ['create', 'patch', 'delete'], resource: 'endpointslices' } as const
    const refused = sim.faults.add({ on, fault: forbidden, times: Infinity })
    const service = { namespace: world.namespace, name: 'tiny' }
    const tell = (name: 'evict' | 'bringBack') =>
      agent.agent.command({ requestId: randomUUID(), command: { name, service } })

    expect(await tell('evict')).toMatchObject({ outcome: 'done' })
    await untilGone(pid)
    expect(await tell('bringBack')).toMatchObject({ outcome: 'done' })
    const again = await agent.untilReadyAgain('tiny', pid)
    expect(again.port).toBe(port)
    expect(await world.published('tiny')).toEqual({ address: hostIp, port, ready: true })
    expect(refused.hits).toBeGreaterThan(0)
    refused.remove()
  },
)

test('what sends pods where no server answers is withdrawn as soon as the cluster takes it, however long it refused', async () => {
  // The longest back-off each time.
  using _ = vi.spyOn(Math, 'random').mockReturnValue(0.999)
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const { pid } = await world.serving('tiny')
  const forbidden = { kind: 'status', code: 403 } as const
  const on = { verb: 'patch', resource: 'endpointslices' } as const
  const refused = sim.faults.add({ on, fault: forbidden, times: Infinity })
  await world.patchSpec('tiny', { replicas: 0 })
  // It serves on meanwhile, and the next try is four seconds away.
  await eventually(() => refused.hits === 4)
  expect(await commandLineOf(pid)).toBeDefined()
  // A step of the wall clock is none of the back-off's business.
  const wall = Date.now.bind(Date)
  using _step = vi.spyOn(Date, 'now').mockImplementation(() => wall() + 2_444_000)
  process.kill(pid, 'SIGKILL')
  await untilGone(pid)
  refused.remove()
  // A back-off that had grown with the refusals would take minutes.
  await eventually(async () => (await world.published('tiny'))?.ready !== true, { timeoutMs: 15_000 })
})

describe.concurrent('a cluster that swallows every request', () => {
  test('holds up no shutdown: the servers are stopped within half a minute, and none is started any more', async () => {
    await using sim = await KubeSim.start({ users: [{ name: 'agent', token: 'agents-token', rules: everything }] })
    await using world = await AgentWorld.open(sim.connection())
    const { agent, pid } = await world.serving('tiny', { connection: sim.connection('agent'), settings: roomForOne })
    await eventually(async () => (await world.condition('tiny')) === 'True Serving')

    sim.faults.add({ on: { user: 'agent' }, fault: { kind: 'stall' }, times: Infinity })
    await world.patchSpec('tiny', { contextSize: 1024 })
    await eventually(() => sim.requests.count({ user: 'agent', verb: 'patch', resource: 'endpointslices' }) > 1)
    const stopped = agent.stop()
    await expect(Promise.race([stopped, overtime(30_000)])).resolves.toBeUndefined()
    expect(await commandLineOf(pid)).toBeUndefined()
    expect(agent.starts).toBe(1)
  })
})

describe.concurrent('a cluster without LLMKube', () => {
  test('is told, and served as soon as LLMKube is installed', async () => {
    await using sim = await KubeSim.start({ crds: false })
    await using world = await AgentWorld.open(sim.connection(), { controller: false })
    const agent = await world.startAgent()
    const { message } = await agent.untilCluster('absent')
    expect(message).toMatch(/does not have LLMKube's API group inference\.llmkube\.dev; install LLMKube there/)

    await sim.installCrds()
    await agent.untilCluster('live')
    await world.startController()
    await world.apply('tiny')
    await agent.untilReady('tiny')
  })
})

describe.concurrent('a kubeconfig', () => {
  test('that comes after the agent is found', async () => {
    await using sim = await KubeSim.start()
    await using world = await AgentWorld.open(sim.connection())
    const kubeconfig = `${world.folder}/late.kubeconfig`
    const agent = await world.startAgent({ kubeconfig })
    expect(agent.snapshot.cluster).toMatchObject({
      state: 'offline',
      message: expect.stringMatching(/^There is no kubeconfig at /) as string,
    })
    await writeFile(kubeconfig, sim.kubeconfig())
    await world.apply('tiny')
    await agent.untilReady('tiny')
  })
})

/** Rejects after the time, without keeping the process alive. */
async function overtime(limitMs: number): Promise<never> {
  await delay(limitMs, undefined, { ref: false })
  throw new Error(`It took longer than ${limitMs} ms.`)
}

function missingControlPlane(): string | undefined {
  const controlPlane = inject('controlPlane')
  return 'missing' in controlPlane ? controlPlane.missing : undefined
}
