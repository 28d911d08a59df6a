import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { livenessTimings } from '../../src/agent-core/servers/liveness.ts'
import { AgentProcess } from '../support/agent-process.ts'
import { AgentWorld, commandLineOf, hostIp, untilGone } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import type { ClusterConnection } from '../support/control-plane/admin-client.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { askAgainAndAgain } from '../support/endless-requests.ts'
import { eventually } from '../support/eventually.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { patienceMs } from '../support/running-agent.ts'
import { SliceWatch } from '../support/slice-watch.ts'

describe('what outlives the agent', () => {
  const api = useRealApiServer()

  /** An agent as a process of its own, which can be killed, and started again on what it left. */
  async function open() {
    await using stack = new AsyncDisposableStack()
    const { connection } = api()
    const world = stack.use(await AgentWorld.open(connection))
    const starter = await agentIn(world, connection)
    stack.defer(() => starter.stop())
    const owned = stack.move()
    return { world, ...starter, [Symbol.asyncDispose]: () => owned.disposeAsync() }
  }

  test('a killed agent drops no request: the next one takes over the same process, and what is published stays ready', async () => {
    await using scene = await open()
    const { world, start, kill } = scene
    const agent = await start()
    await world.apply('tiny')
    const { pid, port = 0 } = await agent.service('tiny', 'ready')
    await untilToldServing(world)
    await using slices = new SliceWatch(api().connection, world.namespace)
    await slices.until('tiny', 'ready')
    await using requests = askAgainAndAgain(port)
    await eventually(() => requests.answered > 5)
    await kill()
    await requests.more()
    const next = await start()
    const adopted = await next.logged('adopted server')
    const view = await next.service('tiny', 'ready')
    await requests.more()
    await world.patchSpec('tiny', { replicas: 1 })
    expect({
      adopted: adopted['pid'],
      pid: view.pid,
      restarts: view.restarts,
      failed: requests.failed,
      shown: slices.history('tiny'),
      said: next.log.filter(({ msg }) => /^(start(ed|ing) inference|withdrew|stopping server)/.test(msg)),
      condition: await world.condition('tiny'),
    }).toEqual({ adopted: pid, pid, restarts: 0, failed: [], shown: ['ready'], said: [], condition: 'True Serving' })
  })

  test('an agent that is ended as soon as it has taken a server over sends nobody to it any more', async () => {
    await using scene = await open()
    const { world, start, kill } = scene
    const agent = await start()
    await world.apply('tiny')
    const { pid = 0 } = await agent.service('tiny', 'ready')
    await kill()
    const next = await start()
    await next.logged('adopted server')
    await scene.stop()
    expect([await commandLineOf(pid), (await world.published('tiny'))?.ready]).toEqual([undefined, false])
  })

  const openInProcess = () => AgentWorld.open(api().connection)

  test('an agent that is told to keep its servers leaves them and what is published, and the next one takes them', async () => {
    await using world = await openInProcess()
    const { agent, pid, port } = await world.serving('tiny')
    await untilToldServing(world)
    await agent.leave()
    const left = [await commandLineOf(pid), await world.published('tiny'), await world.condition('tiny')]
    const next = await world.startAgent()
    expect(left).toEqual([
      expect.stringContaining(`--port ${port}`),
      { address: hostIp, port, ready: true },
      'True Serving',
    ])
    expect([(await next.untilReady('tiny')).pid, next.starts]).toEqual([pid, 0])
  })

  test('a server taken over and killed is withdrawn and started again, and its exit code is not made up', async () => {
    await using world = await openInProcess()
    const { agent, pid } = await world.serving('tiny')
    await agent.leave()
    const next = await world.startAgent()
    await next.untilReady('tiny')
    process.kill(-pid, 'SIGKILL')
    await world.untilNotReady('tiny')
    const { restarts } = await next.untilReadyAgain('tiny', pid)
    const exited = next.log.warnings.find(({ message }) => message === 'server exited')
    expect([restarts, exited?.fields['reason']]).toEqual([
      1,
      'sample-server.cjs ended (exit code unknown, because the agent that started it was gone) while it was serving.',
    ])
  })

  test('what is not wanted any more when the agent is back is stopped, and nothing of it is left', async () => {
    await using world = await openInProcess()
    const agent = await world.startAgent()
    const names = ['deleted', 'suspended']
    for (const name of names) await world.apply(name)
    const pids = await Promise.all(names.map(async (name) => (await agent.untilReady(name)).pid))
    await agent.leave()
    await world.deleteService('deleted')
    await world.patchSpec('suspended', { suspend: true })
    const next = await world.startAgent()
    await Promise.all(pids.map(untilGone))
    await world.untilPublishedKinds('deleted')
    await world.untilPublishedKinds('suspended', 'Service')
    await next.until('suspended', 'stopped')
    await eventually(async () => {
      const ledger: unknown = JSON.parse(await readFile(join(next.stateDir, 'ledger.json'), 'utf8'))
      expect(ledger).toEqual({ schema: 1, servers: [] })
      return true
    })
  })

  test('what was changed while the agent was away is restarted with the change, one process at a time', async () => {
    await using world = await openInProcess()
    const { agent, pid } = await world.serving('tiny')
    await agent.leave()
    await world.patchSpec('tiny', { contextSize: 1024 })
    const next = await world.startAgent()
    const started = await next.until('tiny', (view) => view.pid !== undefined && view.pid !== pid)
    expect(await commandLineOf(pid)).toBeUndefined()
    expect(await next.untilReady('tiny')).toMatchObject({ pid: started.pid })
    expect(await commandLineOf(started.pid ?? 0)).toContain('--ctx-size 1024')
    expect(next.starts).toBe(1)
  })

  test('a server that hangs when the agent is back is withdrawn, and published again once it answers', async () => {
    await using world = await openInProcess()
    const { agent, pid } = await world.serving('tiny')
    await agent.leave()
    process.kill(pid, 'SIGSTOP')
    const next = await world.startAgent({ liveness: { ...livenessTimings, everyMs: 50, answerWithinMs: 250 } })
    await world.untilNotReady('tiny')
    process.kill(pid, 'SIGCONT')
    expect((await next.untilReady('tiny')).pid).toBe(pid)
    expect(await world.published('tiny')).toMatchObject({ ready: true })
  })
})

const untilToldServing = (world: AgentWorld) =>
  eventually(async () => (await world.condition('tiny')) === 'True Serving', { timeoutMs: patienceMs })

async function agentIn(world: AgentWorld, connection: ClusterConnection) {
  const folder = join(world.folder, 'agent')
  const kubeconfig = await readFile(await writeKubeconfig(join(world.folder, 'admin'), connection), 'utf8')
  const args = ['--namespace', world.namespace, '--llama-server', sampleServerPath]
  const agents: AgentProcess[] = []
  return {
    start: async () => {
      const agent = await AgentProcess.start({ folder, kubeconfig, args })
      agents.push(agent)
      return agent
    },
    kill: async () => {
      agents.at(-1)?.signal('SIGKILL')
      await agents.at(-1)?.exited
    },
    stop: async () => {
      await agents.at(-1)?.stop()
    },
  }
}
