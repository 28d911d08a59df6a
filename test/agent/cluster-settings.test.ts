import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { CommandResult } from '../../src/contract/commands.ts'
import type { SettingsPatch } from '../../src/contract/settings.ts'
import { AgentWorld, untilGone } from '../support/agent-world.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import type { RunningAgent } from '../support/running-agent.ts'

const set = ({ agent }: RunningAgent, settings: SettingsPatch): Promise<CommandResult> =>
  agent.command({ requestId: randomUUID(), command: { name: 'updateSettings', settings } })

const untilServed = (agent: RunningAgent, changed: Partial<RunningAgent['snapshot']['cluster']>) =>
  eventually(
    () => {
      const { cluster } = agent.snapshot
      const isSo = Object.entries(changed).every(([name, value]) => Reflect.get(cluster, name) === value)
      return isSo && cluster.state === 'live'
    },
    { what: `the cluster as ${JSON.stringify(changed)}` },
  )

test('another namespace is served at once, after what runs for the first came down, and after a restart too', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const elsewhere = await world.createNamespace()
  await world.startController(elsewhere)
  await world.apply('tiny')
  await world.apply('other', { namespace: elsewhere })
  const agent = await world.startAgent()
  const { pid } = await agent.untilReady('tiny')

  const result = await set(agent, { namespace: elsewhere })
  expect(result).toMatchObject({ outcome: 'accepted', message: expect.stringContaining(`"${elsewhere}"`) as unknown })
  await untilGone(pid)
  const { pid: otherPid } = await agent.untilReady('other', elsewhere)
  expect(agent.snapshot.services.map(({ namespace, name }) => `${namespace}/${name}`)).toEqual([`${elsewhere}/other`])
  expect((await world.published('tiny'))?.ready).toBe(false)
  await agent.stop()
  await untilGone(otherPid)

  const later = await world.startAgent()
  await later.untilReady('other', elsewhere)
  expect(later.snapshot.cluster.namespace).toBe(elsewhere)
  expect(await set(later, { namespace: null })).toMatchObject({ outcome: 'accepted' })
  await later.untilReady('tiny')
  expect(later.snapshot.cluster.namespace).toBeUndefined()
})

test('the namespace that is served already moves nothing', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  await world.apply('tiny')
  const agent = await world.startAgent()
  const { pid } = await agent.untilReady('tiny')
  expect(await set(agent, { namespace: world.namespace })).toMatchObject({ outcome: 'done' })
  await agent.agent.command({ requestId: randomUUID(), command: { name: 'resync' } })
  await agent.until('tiny', (view) => view.state === 'ready' && view.pid === pid)
})

test('another kubeconfig is served at once, in its context of the same name or else its own, and after a restart too', async () => {
  await using lab = await KubeSim.start()
  await using prod = await KubeSim.start()
  await using world = await AgentWorld.open(lab.connection())
  await world.apply('tiny')
  const agent = await world.startAgent({ settings: { namespace: undefined } })
  const { pid } = await agent.untilReady('tiny')
  const kubeconfig = join(world.folder, 'prod.kubeconfig')
  await writeFile(kubeconfig, contextAt('prod', prod.url))

  const result = await set(agent, { kubeconfig })
  expect(result).toMatchObject({ outcome: 'accepted', message: expect.stringContaining('context "prod"') as unknown })
  await untilGone(pid)
  await untilServed(agent, { server: prod.url, context: 'prod' })
  expect((await world.published('tiny'))?.ready).toBe(false)
  await agent.stop()

  const later = await world.startAgent({ settings: { namespace: undefined } })
  await untilServed(later, { server: prod.url, context: 'prod' })
  expect(await set(later, { kubeconfig: null })).toMatchObject({ outcome: 'accepted' })
  await later.untilReady('tiny')
  expect(later.snapshot.cluster.server).toBe(lab.url)
})

test('a kubeconfig that cannot be used is refused in a sentence, and nothing is changed', async () => {
  await using lab = await KubeSim.start()
  await using world = await AgentWorld.open(lab.connection())
  await world.apply('tiny')
  const agent = await world.startAgent()
  const { pid } = await agent.untilReady('tiny')
  const kubeconfig = join(world.folder, 'nothing.kubeconfig')
  const result = await set(agent, { kubeconfig, drainLimitMs: 5 })
  expect(result).toEqual({
    outcome: 'refused',
    by: 'agent',
    message: `Nothing is changed: There is no kubeconfig at ${kubeconfig}; copy one from your cluster there, or name one with --kubeconfig.`,
  })
  const answer = await agent.agent.query({ name: 'settings' })
  const settings = 'settings' in answer ? answer.settings : []
  expect(settings.filter(({ from }) => from === 'person')).toEqual([])
  await agent.until('tiny', (view) => view.state === 'ready' && view.pid === pid)
})

test('an agent without a kubeconfig connects as soon as one is named', async () => {
  await using lab = await KubeSim.start()
  await using world = await AgentWorld.open(lab.connection())
  const agent = await world.startAgent({ kubeconfig: join(world.folder, 'none') })
  await agent.untilCluster('offline')
  await world.apply('tiny')
  const kubeconfig = await writeKubeconfig(join(world.folder, 'lab.kubeconfig'), lab.connection())
  expect(await set(agent, { kubeconfig })).toMatchObject({ outcome: 'accepted' })
  await agent.untilReady('tiny')
})

const contextAt = (name: string, server: string) =>
  JSON.stringify({
    ...{ apiVersion: 'v1', kind: 'Config', 'current-context': name },
    clusters: [{ name, cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'admin', user: { token: 'kube-sim-admin-token' } }],
    contexts: [{ name, context: { cluster: name, user: 'admin' } }],
  })
