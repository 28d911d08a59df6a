import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { command } from '../../src/contract/commands.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import type { RunningAgent } from '../support/running-agent.ts'

test('a later start keeps the context that was served first, whatever became the current one', async () => {
  await using lab = await cluster()
  await using prod = await cluster()
  await using world = await AgentWorld.open(lab.connection())
  const kubeconfig = join(world.folder, 'both.kubeconfig')
  await write(kubeconfig, { lab: lab.url, prod: prod.url })
  const first = await world.startAgent({ kubeconfig })
  expect((await first.untilCluster('live')).context).toBe('lab')
  await first.stop()

  await write(kubeconfig, { prod: prod.url, lab: lab.url })
  const later = await world.startAgent({ kubeconfig })
  expect((await later.untilCluster('live')).context).toBe('lab')
  await later.stop()
  expect(prod.requests.matching()).toEqual([])
})

test('the same name at another cluster waits with a sentence and a command, which moves there', async () => {
  await using lab = await cluster()
  await using other = await cluster()
  await using world = await AgentWorld.open(lab.connection())
  const kubeconfig = join(world.folder, 'one.kubeconfig')
  await write(kubeconfig, { lab: lab.url })
  const first = await world.startAgent({ kubeconfig, settings: everywhere })
  await first.untilCluster('live')
  await first.stop()

  await write(kubeconfig, { lab: other.url })
  const later = await world.startAgent({ kubeconfig, settings: everywhere })
  const sentence =
    `Context "lab" pointed to ${lab.url} when this machine last served it, and now points to ${other.url}, which is another cluster: ` +
    'serve it with metal-agent context use lab, or correct the kubeconfig.'
  expect(await waiting(later)).toMatchObject({ context: 'lab', message: sentence })
  const writes = other.requests.matching().filter(({ verb }) => !['get', 'list', 'watch'].includes(verb))
  expect(writes).toEqual([])
  expect(await select(later, 'lab')).toBe('accepted')
  expect((await later.untilCluster('live')).server).toBe(other.url)
  await later.stop()

  const last = await world.startAgent({ kubeconfig, settings: everywhere })
  expect((await last.untilCluster('live')).server).toBe(other.url)
})

test('the same cluster at another address is known by the uid of its kube-system and served', async () => {
  await using lab = await cluster()
  await using world = await AgentWorld.open(lab.connection())
  const kubeconfig = join(world.folder, 'one.kubeconfig')
  await write(kubeconfig, { lab: lab.url })
  const first = await world.startAgent({ kubeconfig })
  await first.untilCluster('live')
  await first.stop()

  const moved = lab.url.replace('127.0.0.1', 'localhost')
  await write(kubeconfig, { lab: moved })
  const later = await world.startAgent({ kubeconfig })
  expect((await later.untilCluster('live')).server).toBe(moved)
})

test('another address waits where nothing proves that it is the same cluster', async () => {
  await using lab = await cluster({ kubeSystem: false })
  await using world = await AgentWorld.open(lab.connection())
  const kubeconfig = join(world.folder, 'one.kubeconfig')
  await write(kubeconfig, { lab: lab.url })
  const first = await world.startAgent({ kubeconfig })
  await first.untilCluster('live')
  await first.stop()

  const moved = lab.url.replace('127.0.0.1', 'localhost')
  await write(kubeconfig, { lab: moved })
  const later = await world.startAgent({ kubeconfig })
  expect((await waiting(later)).message).toMatch(
    /^Context "lab" pointed to .*, and now points to .*, and nothing shows that it is the same cluster: .*metal-agent context use lab/,
  )
})

test('--context chooses anew, also where its name stands for another cluster now', async () => {
  await using lab = await cluster()
  await using prod = await cluster()
  await using world = await AgentWorld.open(lab.connection())
  const kubeconfig = join(world.folder, 'both.kubeconfig')
  await write(kubeconfig, { lab: lab.url, prod: prod.url })
  const first = await world.startAgent({ kubeconfig, settings: everywhere })
  await first.untilCluster('live')
  await first.stop()
  const flagged = await world.startAgent({ kubeconfig, settings: { ...everywhere, context: 'prod' } })
  expect((await flagged.untilCluster('live')).server).toBe(prod.url)
  await flagged.stop()
  await write(kubeconfig, { lab: lab.url, prod: lab.url })
  const moved = await world.startAgent({ kubeconfig, settings: { ...everywhere, context: 'prod' } })
  expect((await moved.untilCluster('live')).server).toBe(lab.url)
})

/** The namespace of the test's world is only in the first cluster. */
const everywhere = { namespace: undefined }

async function cluster({ kubeSystem = true } = {}): Promise<KubeSim> {
  return KubeSim.start({ namespaces: ['default', ...(kubeSystem ? ['kube-system'] : [])] })
}

/** The first is the current one. */
async function write(file: string, servers: Readonly<Record<string, string>>): Promise<void> {
  const names = Object.keys(servers)
  const kubeconfig = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': names[0],
    clusters: names.map((name) => ({ name, cluster: { server: servers[name], 'insecure-skip-tls-verify': true } })),
    users: [{ name: 'admin', user: { token: 'kube-sim-admin-token' } }],
    contexts: names.map((name) => ({ name, context: { cluster: name, user: 'admin' } })),
  }
  await writeFile(file, JSON.stringify(kubeconfig))
}

const waiting = (agent: RunningAgent) =>
  eventually(
    () => {
      const { cluster: view } = agent.snapshot
      return view.state === 'offline' && view.message.includes('metal-agent context use') ? view : undefined
    },
    { timeoutMs: 40_000, what: 'the agent waiting for a choice' },
  )

async function select(agent: RunningAgent, context: string): Promise<string> {
  const request = { requestId: crypto.randomUUID(), command: command.parse({ name: 'selectContext', context }) }
  return (await agent.agent.command(request)).outcome
}
