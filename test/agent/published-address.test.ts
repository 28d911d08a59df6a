import { execa } from 'execa'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ServiceView } from '../../src/contract/service.ts'
import { AgentProcess } from '../support/agent-process.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { createNetworkNamespace, type NetworkNamespace } from '../support/network-namespace.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { missingNetworkNamespaces, skipWhen } from '../support/skip.ts'

const missing = missingNetworkNamespaces()
skipWhen(missing)

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

/** Agents as processes, one after the other on the same state folder. */
async function scene(): Promise<Scene> {
  await using stack = new AsyncDisposableStack()
  const world = stack.use(await AgentWorld.open(sim.connection()))
  const clientPort = await freePort()
  const folder = path.join(world.folder, 'agent')
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
        kubeconfig: sim.kubeconfig(),
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
      '{"messages":[{"role":"user","content":"a"}]}',
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
