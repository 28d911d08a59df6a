import { mkdir, symlink, writeFile, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { deniedSentence } from '../../src/agent-core/platform/local-network.ts'
import { errorCode } from '../../src/agent-core/util/error-code.ts'
import type { CommandInput, CommandResult } from '../../src/contract/commands.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import { everything } from '../support/kube-sim/access.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import type { RunningAgent } from '../support/running-agent.ts'
import { StatedMemory, statedPlatform } from '../support/stated-memory.ts'

test('a cluster that does not answer is not moved to, unless a person says so; then the old one is a way back', async () => {
  await using lab = await KubeSim.start()
  await using away = await KubeSim.start()
  await using world = await AgentWorld.open(lab.connection(), { namespace: 'default' })
  const kubeconfig = join(world.folder, 'both.kubeconfig')
  await writeFile(kubeconfig, kubeconfigOf({ lab, away }))
  const { agent, pid } = await world.serving('tiny', { kubeconfig })
  await away.stop()

  const refused = await run(agent, { name: 'selectContext', context: 'away' })
  expect(refused).toMatchObject({
    outcome: 'refused',
    message: expect.stringMatching(
      /^The context stays "lab", and nothing was stopped, because nothing could be served for "away"\. Its API server .* does not answer: /,
    ) as unknown,
    instead: { label: 'Switch anyway', command: { name: 'selectContext', context: 'away', accept: ['unverified'] } },
  })
  expect(agent.view('tiny')).toMatchObject({ state: 'ready', pid })

  if (refused.outcome !== 'refused' || !refused.instead) throw new Error('nothing was offered instead')
  expect((await run(agent, refused.instead.command)).outcome).toBe('accepted')
  const back =
    'Context "away" has not been reached yet; "lab" was served before: to go back, run metal-agent context use lab.'
  await eventually(() => agent.snapshot.notices.includes(back) && agent.snapshot.cluster.context === 'away')
  expect((await run(agent, { name: 'selectContext', context: 'lab' })).outcome).toBe('accepted')
  await agent.untilReady('tiny')
  await eventually(() => !agent.snapshot.notices.includes(back))
})

test('where macOS keeps the agent from the local network, that is said of a cluster that is to be served', async () => {
  await using lab = await KubeSim.start()
  await using away = await KubeSim.start()
  await using world = await AgentWorld.open(lab.connection(), { namespace: 'default' })
  const kubeconfig = join(world.folder, 'both.kubeconfig')
  await writeFile(kubeconfig, kubeconfigOf({ lab, away }))
  const denied = deniedSentence('127.0.0.1')
  // As a Mac answers of a connection that its permission forbids; here nobody listens there.
  const memory = new StatedMemory(
    statedPlatform(hostPlatform(), {
      whyUnreachable: (error) => Promise.resolve(errorCode(error) === 'ECONNREFUSED' ? denied : undefined),
    }),
  )
  const agent = await world.startAgent({ kubeconfig, memory })
  await agent.untilCluster('live')
  await away.stop()
  expect(await run(agent, { name: 'selectContext', context: 'away' })).toMatchObject({
    outcome: 'refused',
    message: `The context stays "lab", and nothing was stopped, because nothing could be served for "away". ${denied}`,
  })
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
    message: expect.stringContaining(
      'Its API server does not accept these credentials (Unauthorized): log in again.',
    ) as unknown,
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
    message: expect.stringContaining('looks like production by its name') as unknown,
    instead: { label: 'Serve "prod-eu"', command: { accept: ['production'] } },
  })
  expect(prod.requests.matching()).toEqual([])
  const yes: CommandInput = { name: 'selectContext', context: 'prod-eu', accept: ['production'] }
  expect((await run(agent, yes)).outcome).toBe('accepted')
  await eventually(() => agent.snapshot.cluster.context === 'prod-eu' && agent.snapshot.cluster.state === 'live')
})

test('another kubeconfig is asked about as another context is, before anything stops; its way back names the file', async () => {
  await using lab = await KubeSim.start()
  await using prod = await KubeSim.start()
  await using world = await AgentWorld.open(lab.connection(), { namespace: 'default' })
  const first = join(world.folder, 'lab.kubeconfig')
  await writeFile(first, kubeconfigOf({ lab }))
  const second = join(world.folder, 'prod.kubeconfig')
  await writeFile(second, kubeconfigOf({ prod }))
  const { agent, pid } = await world.serving('tiny', { kubeconfig: first })

  const input: CommandInput = { name: 'updateSettings', settings: { kubeconfig: second } }
  const asked = await run(agent, input)
  expect(asked).toMatchObject({
    outcome: 'refused',
    message: expect.stringMatching(
      /^Nothing is changed\. Context "prod" .* looks like production by its name/,
    ) as unknown,
    instead: { label: 'Serve "prod"', command: { ...input, accept: ['production'] } },
  })
  expect(prod.requests.matching()).toEqual([])
  await prod.stop()
  const doubted = await run(agent, insteadOf(asked))
  expect(doubted).toMatchObject({
    outcome: 'refused',
    message: expect.stringContaining('nothing could be served for "prod". Its API server') as unknown,
    instead: { label: 'Switch anyway', command: { ...input, accept: ['production', 'unverified'] } },
  })
  expect(agent.view('tiny')).toMatchObject({ state: 'ready', pid })
  const answer = await agent.agent.query({ name: 'settings' })
  expect('settings' in answer && answer.settings.find(({ name }) => name === 'kubeconfig')?.value).toBe(first)

  expect((await run(agent, insteadOf(doubted))).outcome).toBe('accepted')
  const back = `Context "prod" has not been reached yet; "lab" of ${first} was served before: to go back, run metal-agent settings set kubeconfig ${first}, and then metal-agent context use lab.`
  await eventually(() => agent.snapshot.notices.includes(back))
  expect((await run(agent, { name: 'updateSettings', settings: { kubeconfig: first } })).outcome).toBe('accepted')
  expect(['done', 'accepted']).toContain((await run(agent, { name: 'selectContext', context: 'lab' })).outcome)
  await agent.untilReady('tiny')
  await eventually(() => agent.snapshot.notices.length === 0)
})

test('a cluster that answers and has no LLMKube is not moved to', async () => {
  await using lab = await KubeSim.start()
  await using bare = await KubeSim.start({ crds: false })
  await using world = await AgentWorld.open(lab.connection(), { namespace: 'default' })
  const kubeconfig = join(world.folder, 'both.kubeconfig')
  await writeFile(kubeconfig, kubeconfigOf({ lab, bare }))
  const agent = await world.startAgent({ kubeconfig })
  await agent.untilCluster('live')
  expect(await run(agent, { name: 'selectContext', context: 'bare' })).toMatchObject({
    outcome: 'refused',
    message: expect.stringMatching(/nothing could be served for "bare"\. .*LLMKube/) as unknown,
    instead: { label: 'Switch anyway' },
  })
  expect(agent.snapshot.cluster).toMatchObject({ context: 'lab', state: 'live' })
})

/** A second is promised; a machine that does something else besides takes longer. */
const soon = { timeoutMs: 15_000 }

test('a kubeconfig that changes is followed within a second: replaced, half-written, without our context, moved, mended', async () => {
  await using lab = await KubeSim.start()
  await using other = await KubeSim.start()
  await using world = await AgentWorld.open(lab.connection(), { namespace: 'default' })
  const kubeconfig = join(world.folder, 'one.kubeconfig')
  await writeFile(kubeconfig, kubeconfigOf({ lab }))
  const { agent, pid } = await world.serving('tiny', { kubeconfig })
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

test('credentials that are rotated count within a second, before a server has refused the old ones', async () => {
  const users = ['before', 'after'].map((name) => ({ name, token: `token-${name}`, rules: everything }))
  await using lab = await KubeSim.start({ users })
  await using world = await AgentWorld.open(lab.connection(), { namespace: 'default' })
  const kubeconfig = join(world.folder, 'one.kubeconfig')
  await writeFile(kubeconfig, kubeconfigOf({ lab }, { lab: 'token-before' }))
  const agent = await world.startAgent({ kubeconfig })
  await agent.untilCluster('live')
  expect(lab.requests.count({ user: 'after' })).toBe(0)
  await writeFile(kubeconfig, kubeconfigOf({ lab }, { lab: 'token-after' }))
  await eventually(async () => {
    // The next one would break off a list that is under way.
    const before = lab.requests.count({ verb: 'list' })
    await run(agent, { name: 'resync' })
    await eventually(() => lab.requests.count({ verb: 'list' }) > before, soon)
    return lab.requests.count({ user: 'after' }) > 0
  }, soon)
})

test('a kubeconfig behind a link is followed: written, replaced, and the link set to another file', async () => {
  await using lab = await KubeSim.start()
  await using other = await KubeSim.start()
  await using world = await AgentWorld.open(lab.connection(), { namespace: 'default' })
  const real = join(world.folder, 'real/config')
  const next = join(world.folder, 'next/config')
  const kubeconfig = join(world.folder, 'linked/config')
  for (const file of [real, next, kubeconfig]) await mkdir(dirname(file), { recursive: true })
  await writeFile(real, kubeconfigOf({ lab }))
  await symlink(real, kubeconfig)
  const agent = await world.startAgent({ kubeconfig })
  await agent.untilCluster('live')

  await writeFile(real, kubeconfigOf({ other }))
  await eventually(() => told(agent, 'has no context "lab"'), soon)
  await writeFile(`${real}.new`, kubeconfigOf({ lab: other }))
  await rename(`${real}.new`, real)
  await eventually(() => told(agent, `now stands for ${other.url}`), soon)
  await writeFile(next, kubeconfigOf({ lab }))
  await symlink(next, `${kubeconfig}.new`)
  await rename(`${kubeconfig}.new`, kubeconfig)
  await eventually(() => !told(agent, '"lab"'), soon)
  await writeFile(next, kubeconfigOf({ lab }).slice(0, 40))
  await eventually(() => told(agent, 'is not valid'), soon)
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

const told = (agent: RunningAgent, words: string) => agent.snapshot.notices.some((notice) => notice.includes(words))

function insteadOf(result: CommandResult): CommandInput {
  if (result.outcome !== 'refused' || !result.instead) throw new Error('nothing was offered instead')
  return result.instead.command
}

const run = (agent: RunningAgent, input: CommandInput) => agent.command(input)
