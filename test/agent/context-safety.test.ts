import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { command, type CommandInput } from '../../src/contract/commands.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import type { RunningAgent } from '../support/running-agent.ts'

test('a cluster that does not answer is not moved to, unless a person says so; then the old one is a way back', async () => {
  await using lab = await KubeSim.start()
  await using away = await KubeSim.start()
  await using world = await AgentWorld.open(lab.connection(), { namespace: 'default' })
  const kubeconfig = join(world.folder, 'both.kubeconfig')
  await writeFile(kubeconfig, kubeconfigOf({ lab, away }))
  const agent = await world.startAgent({ kubeconfig })
  await world.apply('tiny')
  const { pid } = await agent.untilReady('tiny')
  await away.stop()

  const refused = await run(agent, { name: 'selectContext', context: 'away' })
  expect(refused).toMatchObject({
    outcome: 'refused',
    message: expect.stringMatching(
      /^The context stays "lab", and nothing was stopped: nothing could be served for "away"\. Its API server .* does not answer: /,
    ) as unknown,
    instead: { label: 'Switch anyway', command: { name: 'selectContext', context: 'away', accept: ['unverified'] } },
  })
  expect(agent.view('tiny')).toMatchObject({ state: 'ready', pid })

  if (refused.outcome !== 'refused' || !refused.instead) throw new Error('nothing was offered instead')
  expect((await run(agent, refused.instead.command)).outcome).toBe('accepted')
  const back = 'Context "away" was not reached yet; "lab" was served before: metal-agent context use lab goes back.'
  await eventually(() => agent.snapshot.notices.includes(back) && agent.snapshot.cluster.context === 'away')
  expect((await run(agent, { name: 'selectContext', context: 'lab' })).outcome).toBe('accepted')
  await agent.untilReady('tiny')
  await eventually(() => !agent.snapshot.notices.includes(back))
})

test('a cluster without LLMKube, or that refuses our credentials, is not moved to', async () => {
  await using lab = await KubeSim.start()
  await using bare = await KubeSim.start({ namespaces: ['default'] })
  await using world = await AgentWorld.open(lab.connection(), { namespace: 'default' })
  const kubeconfig = join(world.folder, 'both.kubeconfig')
  await writeFile(kubeconfig, kubeconfigOf({ lab, bare }, { bare: 'not-its-token' }))
  const agent = await world.startAgent({ kubeconfig })
  await agent.untilCluster('live')
  expect(await run(agent, { name: 'selectContext', context: 'bare' })).toMatchObject({
    outcome: 'refused',
    message: expect.stringContaining('Its API server refuses these credentials: ') as unknown,
  })
})

test('a context that is called production is asked about first, and is not asked itself before that', async () => {
  await using lab = await KubeSim.start()
  await using prod = await KubeSim.start()
  await using world = await AgentWorld.open(lab.connection(), { namespace: 'default' })
  const kubeconfig = join(world.folder, 'both.kubeconfig')
  await writeFile(kubeconfig, kubeconfigOf({ lab, 'prod-eu': prod }))
  const agent = await world.startAgent({ kubeconfig })
  await agent.untilCluster('live')
  expect(await run(agent, { name: 'selectContext', context: 'prod-eu' })).toMatchObject({
    outcome: 'refused',
    message: expect.stringContaining('is called production') as unknown,
    instead: { label: 'Serve "prod-eu"', command: { accept: ['production'] } },
  })
  expect(prod.requests.matching()).toEqual([])
  const yes: CommandInput = { name: 'selectContext', context: 'prod-eu', accept: ['production'] }
  expect((await run(agent, yes)).outcome).toBe('accepted')
  await eventually(() => agent.snapshot.cluster.context === 'prod-eu' && agent.snapshot.cluster.state === 'live')
})

/** A second is promised; a machine that does something else besides takes longer, and nothing but the watch is so quick. */
const soon = { timeoutMs: 3_000 }

test('a kubeconfig that changes is followed within a second: replaced, half-written, without our context, moved, mended', async () => {
  await using lab = await KubeSim.start()
  await using other = await KubeSim.start()
  await using world = await AgentWorld.open(lab.connection(), { namespace: 'default' })
  const kubeconfig = join(world.folder, 'one.kubeconfig')
  await writeFile(kubeconfig, kubeconfigOf({ lab }))
  const agent = await world.startAgent({ kubeconfig })
  await world.apply('tiny')
  const { pid } = await agent.untilReady('tiny')
  const told = (words: string) => agent.snapshot.notices.some((notice) => notice.includes(words))
  const replace = async (content: string) => {
    await writeFile(`${kubeconfig}.new`, content)
    await rename(`${kubeconfig}.new`, kubeconfig)
  }

  await replace(kubeconfigOf({ other }))
  await eventually(() => told('has no context "lab"'), soon)
  await replace(kubeconfigOf({ lab: other }))
  await eventually(() => told(`now stands for ${other.url}`), soon)
  const whole = kubeconfigOf({ lab })
  await writeFile(kubeconfig, whole.slice(0, whole.length / 2))
  await eventually(() => told('is not valid'), soon)
  await writeFile(kubeconfig, whole)
  await eventually(() => !told('lab'), soon)
  expect(agent.view('tiny')).toMatchObject({ state: 'ready', pid })
})

test('a token that is rotated after it was refused counts within a second', async () => {
  await using lab = await KubeSim.start()
  await using world = await AgentWorld.open(lab.connection(), { namespace: 'default' })
  const kubeconfig = join(world.folder, 'one.kubeconfig')
  await writeFile(kubeconfig, kubeconfigOf({ lab }, { lab: 'expired' }))
  const agent = await world.startAgent({ kubeconfig })
  await agent.untilCluster('denied')
  await writeFile(kubeconfig, kubeconfigOf({ lab }))
  await eventually(() => agent.snapshot.cluster.state === 'live', soon)
})

test('a kubeconfig that is made while the agent waits for one is used within a second', async () => {
  await using lab = await KubeSim.start()
  await using world = await AgentWorld.open(lab.connection(), { namespace: 'default' })
  const kubeconfig = join(world.folder, 'late.kubeconfig')
  const agent = await world.startAgent({ kubeconfig })
  await agent.untilCluster('offline')
  await writeFile(kubeconfig, kubeconfigOf({ lab }))
  await eventually(() => agent.snapshot.cluster.state === 'live', soon)
})

function kubeconfigOf(sims: Readonly<Record<string, KubeSim>>, tokens: Readonly<Record<string, string>> = {}): string {
  const names = Object.keys(sims)
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': names[0],
    clusters: names.map((name) => ({ name, cluster: { server: sims[name]?.url, 'insecure-skip-tls-verify': true } })),
    users: names.map((name) => ({ name, user: { token: tokens[name] ?? 'kube-sim-admin-token' } })),
    contexts: names.map((name) => ({ name, context: { cluster: name, user: name } })),
  })
}

const run = (agent: RunningAgent, input: CommandInput) =>
  agent.agent.command({ requestId: crypto.randomUUID(), command: command.parse(input) })
