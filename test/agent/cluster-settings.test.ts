import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { answers } from '../../src/contract/queries.ts'
import type { SettingsPatch } from '../../src/contract/settings.ts'
import { AgentWorld, untilGone } from '../support/agent-world.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import type { RunningAgent } from '../support/running-agent.ts'

const set = (agent: RunningAgent, settings: SettingsPatch) => agent.command({ name: 'updateSettings', settings })

const untilServed = (agent: RunningAgent, changed: Partial<RunningAgent['snapshot']['cluster']>) =>
  eventually(
    () => {
      const { cluster } = agent.snapshot
      const isSo = Object.entries(changed).every(([name, value]) => Reflect.get(cluster, name) === value)
      return isSo && cluster.state === 'live'
    },
    { what: `the cluster as ${JSON.stringify(changed)}` },
  )

/** `tiny` in the world's own namespace, `other` in a second one, and an agent that serves the first. */
async function inTwoNamespaces(world: AgentWorld, options: Parameters<AgentWorld['startAgent']>[0] = {}) {
  const elsewhere = await world.createNamespace()
  await world.startController(elsewhere)
  await world.apply('tiny')
  await world.apply('other', { namespace: elsewhere })
  const agent = await world.startAgent(options)
  const { pid } = await agent.untilReady('tiny')
  return { elsewhere, agent, pid }
}

test('another namespace is served at once, after what runs for the first came down, and after a restart too', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const { elsewhere, agent, pid } = await inTwoNamespaces(world)

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

test('what a move left ready while the cluster refused writes is withdrawn when it takes them, beside what is served then', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const { elsewhere, agent, pid } = await inTwoNamespaces(world)
  const refused = sim.faults.add({
    on: { resource: 'endpointslices', namespace: world.namespace, verb: 'patch' },
    times: Infinity,
    fault: { kind: 'status', code: 403, reason: 'Forbidden', message: 'not now' },
  })

  expect(await set(agent, { namespace: elsewhere })).toMatchObject({ outcome: 'accepted' })
  await untilGone(pid)
  await agent.untilReady('other', elsewhere)
  expect((await world.published('tiny'))?.ready).toBe(true)
  refused.remove()
  await eventually(async () => (await world.published('tiny'))?.ready === false, { timeoutMs: 20_000 })
  expect(agent.view('other', elsewhere)).toMatchObject({ state: 'ready' })
})

test('another kubeconfig is served at once, in its context of the same name or else its own, and after a restart too', async () => {
  await using lab = await KubeSim.start()
  await using office = await KubeSim.start()
  await using world = await AgentWorld.open(lab.connection())
  await world.apply('tiny')
  const agent = await world.startAgent({ settings: { namespace: undefined } })
  const { pid } = await agent.untilReady('tiny')
  const kubeconfig = join(world.folder, 'office.kubeconfig')
  await writeFile(kubeconfig, contextAt('office', office.url))

  const result = await set(agent, { kubeconfig })
  expect(result).toMatchObject({ outcome: 'accepted', message: expect.stringContaining('context "office"') as unknown })
  await untilGone(pid)
  await untilServed(agent, { server: office.url, context: 'office' })
  expect((await world.published('tiny'))?.ready).toBe(false)
  await agent.stop()

  const later = await world.startAgent({ settings: { namespace: undefined } })
  await untilServed(later, { server: office.url, context: 'office' })
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
    setting: 'kubeconfig',
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

test('the same cluster in another kubeconfig stops nothing: its credentials count from then on, and it is watched', async () => {
  await using lab = await KubeSim.start()
  await using world = await AgentWorld.open(lab.connection())
  await world.apply('tiny')
  const first = join(world.folder, 'first.kubeconfig')
  await writeFile(first, contextAt('lab', lab.url, 'kube-sim-admin-token'))
  const agent = await world.startAgent({ kubeconfig: first })
  const { pid } = await agent.untilReady('tiny')
  const second = join(world.folder, 'second.kubeconfig')
  await writeFile(second, contextAt('lab', lab.url, 'kube-sim-admin-token'))

  expect(await set(agent, { kubeconfig: second })).toMatchObject({
    outcome: 'accepted',
    message: expect.stringContaining(
      `The cluster stays "lab" (${lab.url}), with the credentials of ${second}`,
    ) as unknown,
  })
  await writeFile(first, 'no kubeconfig any more')
  // What the watch says of the new file shows that it is followed.
  const says = (words: string) => agent.snapshot.notices.some((notice) => notice.includes(words))
  await eventually(async () => {
    await writeFile(second, contextAt('elsewhere', lab.url))
    return says('has no context "lab"')
  })
  await writeFile(second, contextAt('lab', lab.url))
  await eventually(() => !says('"lab"'))
  expect(agent.view('tiny')).toMatchObject({ state: 'ready', pid })
  expect(agent.starts).toBe(1)
})

test('all namespaces in place of one leaves what runs alone, and the other way what is in that one', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const { elsewhere, agent, pid } = await inTwoNamespaces(world)
  let isWithdrawn = false
  sim.onChange(({ resource, object }) => {
    if (resource !== 'endpointslices' || object.metadata.name !== 'tiny') return
    isWithdrawn ||= !JSON.stringify(object['endpoints']).includes('"ready":true')
  })

  expect(await set(agent, { namespace: null })).toMatchObject({ outcome: 'accepted' })
  const { pid: otherPid } = await agent.untilReady('other', elsewhere)
  expect(agent.view('tiny')).toMatchObject({ state: 'ready', pid })

  expect(await set(agent, { namespace: world.namespace })).toMatchObject({ outcome: 'accepted' })
  await untilGone(otherPid)
  await untilServed(agent, { namespace: world.namespace })
  await agent.until('tiny', (view) => view.state === 'ready' && view.pid === pid)
  expect(agent.view('other', elsewhere)).toBeUndefined()
  expect(isWithdrawn).toBe(false)
  expect(agent.starts).toBe(2)
})

test('a move waits for a server that cannot be ended no longer than one that can would take, and says so meanwhile and afterwards', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const { elsewhere, agent, pid } = await inTwoNamespaces(world, { leaveLimitMs: 1_000 })
  const kill = process.kill.bind(process)
  // As a process that hangs in the kernel: no signal reaches it.
  using hanging = vi
    .spyOn(process, 'kill')
    .mockImplementation((id, signal) => (Math.abs(id) === pid && signal !== 0 ? true : kill(id, signal)))

  expect(await set(agent, { namespace: elsewhere })).toMatchObject({ outcome: 'accepted' })
  const key = `${world.namespace}/tiny`
  const where = `namespace "${elsewhere}"`
  await eventually(() =>
    agent.snapshot.notices.some((notice) => notice.startsWith(`The move to ${where} waits for ${key}: Released: `)),
  )
  await agent.untilReady('other', elsewhere)
  expect((await world.published('tiny'))?.ready).toBe(false)
  expect(agent.view('tiny')).toMatchObject({
    state: 'stopping',
    message: expect.stringContaining(
      `There is no InferenceService ${key} in the namespaces this agent watches. `,
    ) as unknown,
  })
  const { entries } = answers.history.parse(await agent.agent.query({ name: 'history', limit: 20 }))
  expect(entries.map(({ message }) => message)).toContainEqual(
    expect.stringContaining(`The move to ${where} stopped waiting after 1 s for ${key}: Released: `),
  )
  hanging.mockRestore()
  process.kill(-pid, 'SIGKILL')
  await agent.untilNotShown('tiny')
})

const contextAt = (name: string, server: string, token = 'kube-sim-admin-token') =>
  JSON.stringify({
    ...{ apiVersion: 'v1', kind: 'Config', 'current-context': name },
    clusters: [{ name, cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'admin', user: { token } }],
    contexts: [{ name, context: { cluster: name, user: 'admin' } }],
  })
