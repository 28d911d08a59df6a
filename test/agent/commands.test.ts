import { randomUUID } from 'node:crypto'
import { readFile, realpath, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { command, type CommandInput } from '../../src/contract/commands.ts'
import { AgentWorld, hostIp, inferenceService, untilGone } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { eventually } from '../support/eventually.ts'
import type { Rule } from '../support/kube-sim/access.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import type { RunningAgent } from '../support/running-agent.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { StatedMemory } from '../support/stated-memory.ts'

const run = (agent: RunningAgent, input: CommandInput, requestId = randomUUID()) => agent.command(input, requestId)

const kinds = async ({ agent }: RunningAgent, name?: { namespace: string; name: string }): Promise<string[]> => {
  const answer = await agent.query({ name: 'history', limit: 200, ...(name && { service: name }) })
  return 'entries' in answer ? answer.entries.map(({ kind }) => kind).reverse() : []
}

/** What takes back what happened last. */
const lastUndo = async ({ agent }: RunningAgent) => {
  const answer = await agent.query({ name: 'history', limit: 1 })
  return 'entries' in answer ? answer.entries[0]?.undo : undefined
}

/** Everything but changing an InferenceService. */
const watcher: readonly Rule[] = [
  { apiGroups: ['inference.llmkube.dev'], resources: ['*'], verbs: ['get', 'list', 'watch'] },
  { apiGroups: ['inference.llmkube.dev'], resources: ['inferenceservices/status'], verbs: ['*'] },
  {
    apiGroups: ['', 'discovery.k8s.io'],
    resources: ['services', 'endpoints', 'endpointslices', 'events'],
    verbs: ['*'],
  },
]

describe('on a real API server', () => {
  const api = useRealApiServer()
  const open = (options?: Parameters<typeof AgentWorld.open>[1]) => AgentWorld.open(api().connection, options)

  const specOf = async (world: AgentWorld, name: string) => {
    const object = await world.admin.get(inferenceService(name))
    return { ...fields(object?.['spec'], 'suspend', 'replicas'), annotations: object?.metadata['annotations'] }
  }

  describe('stop', () => {
    test('suspends the service in the cluster; start lets it be served again', async () => {
      await using world = await open()
      const { agent, pid } = await world.serving('tiny', { spec: { replicas: 2 } })
      const service = { namespace: world.namespace, name: 'tiny' }

      expect(await run(agent, { name: 'stop', service })).toEqual({
        outcome: 'done',
        message: `${world.namespace}/tiny is suspended (spec.suspend) in the cluster; its server finishes the requests in flight and ends.`,
      })
      await untilGone(pid)
      await agent.until('tiny', ({ state, reason }) => state === 'stopped' && reason === 'Suspended')
      expect(await specOf(world, 'tiny')).toMatchObject({ suspend: true, replicas: 2 })
      expect((await run(agent, { name: 'stop', service })).message).toContain('already stopped in the cluster')

      expect((await run(agent, { name: 'start', service })).outcome).toBe('done')
      await agent.untilReadyAgain('tiny', pid)
      expect(await specOf(world, 'tiny')).toMatchObject({ suspend: false, replicas: 2 })
      expect(await kinds(agent, service)).toEqual(['started', 'ready', 'stopped', 'started', 'ready'])
    })

    test('leaves spec.suspend to Kueue, scales to zero and remembers the replicas', async () => {
      await using world = await open()
      const agent = await world.startAgent()
      await world.applyModel('tiny')
      const queued = {
        ...inferenceService('tiny'),
        metadata: { name: 'tiny', labels: { 'kueue.x-k8s.io/queue-name': 'macs' } },
        spec: { modelRef: 'tiny', replicas: 3 },
      }
      await world.admin.apply(queued)
      const { pid } = await agent.untilReady('tiny')
      const service = { namespace: world.namespace, name: 'tiny' }

      expect(await run(agent, { name: 'stop', service })).toMatchObject({ outcome: 'done', message: saying(/Kueue/) })
      await untilGone(pid)
      expect(await specOf(world, 'tiny')).toMatchObject({
        replicas: 0,
        annotations: { 'metalbar.dev/replicas-before-stop': '3' },
      })
      expect((await run(agent, { name: 'start', service })).outcome).toBe('done')
      await agent.untilReadyAgain('tiny', pid)
      const after = await specOf(world, 'tiny')
      expect(after).toMatchObject({ replicas: 3 })
      expect(after.annotations ?? {}).not.toHaveProperty(['metalbar.dev/replicas-before-stop'])
    })

    test('that the cluster does not allow is refused in its words; the hold on this machine works instead, and outlives the agent', async () => {
      const { namespace } = api()
      await using world = await open({ namespace })
      const { connection } = await api().restricted(watcher)
      const { agent, pid } = await world.serving('tiny', { connection })
      const service = { namespace, name: 'tiny' }

      const refusal = await run(agent, { name: 'stop', service })
      expect(refusal).toMatchObject({
        outcome: 'refused',
        by: 'cluster',
        message: saying(/was not stopped: the cluster refused it \(inferenceservices\..* is forbidden: User /),
        instead: { label: 'Stop only on this machine', command: { name: 'stop', service, scope: 'here' } },
      })
      expect(agent.view('tiny')).toMatchObject({ state: 'ready', pid })
      if (refusal.outcome !== 'refused' || !refusal.instead) throw new Error('no other way')

      expect((await run(agent, refusal.instead.command)).outcome).toBe('done')
      await untilGone(pid)
      const held = await agent.until('tiny', ({ state, reason }) => state === 'stopped' && reason === 'Held')
      expect(held).toMatchObject({ hold: { cause: 'stopped' }, message: saying(/only on this machine/) })
      expect(await world.claim('tiny')).toEqual({ heartbeat: saying(/Z$/), releasedBy: saying(/^[0-9a-f-]{36}$/) })
      await eventually(async () => (await world.condition('tiny')) === 'False Held')

      await world.admin.patch(
        { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', metadata: { name: 'tiny' } },
        { endpoints: [{ addresses: [hostIp], conditions: { ready: true } }] },
      )
      await world.untilNotReady('tiny')
      expect(await world.claim('tiny')).toEqual({ heartbeat: saying(/Z$/), releasedBy: saying(/^[0-9a-f-]{36}$/) })

      await agent.stop()
      const again = await world.startAgent({ connection })
      await again.until('tiny', ({ reason }) => reason === 'Held')
      expect(again.starts).toBe(0)
      expect(await run(again, { name: 'start', service })).toMatchObject({
        outcome: 'done',
        message: saying(/already|on this machine/),
      })
      await again.untilReady('tiny')
      expect(again.view('tiny')).not.toHaveProperty('hold')
      expect(await kinds(again, service)).toEqual(['started', 'ready', 'stopped', 'broughtBack', 'started', 'ready'])
    })

    test('of a service that is not known here is refused', async () => {
      await using world = await open()
      const agent = await world.startAgent()
      const service = { namespace: world.namespace, name: 'nothing' }
      // Before the first complete list it is not known whether there is one.
      const told = await eventually(async () => {
        const { message } = await run(agent, { name: 'stop', service })
        return !message.includes('not read') && message
      })
      const key = `${world.namespace}/nothing`
      expect(told).toBe(`This machine knows no InferenceService ${key}; check its name and namespace.`)
    })
  })

  test('evict takes a service out of memory until it is brought back, and another agent may have it meanwhile', async () => {
    await using world = await open()
    const { agent: first, pid } = await world.serving('tiny', { name: 'studio' })
    const second = await world.startAgent({ name: 'mini', hostIp: '192.0.2.8' })
    await second.until('tiny', 'foreign')
    const service = { namespace: world.namespace, name: 'tiny' }

    expect((await run(first, { name: 'evict', service })).outcome).toBe('done')
    await untilGone(pid)
    const { port } = await second.untilReady('tiny')
    expect(await world.published('tiny')).toEqual({ address: '192.0.2.8', port, ready: true })
    expect(first.view('tiny')).toMatchObject({ state: 'stopped', reason: 'Held', hold: { cause: 'evicted' } })

    expect((await run(first, { name: 'bringBack', service })).outcome).toBe('done')
    await first.until('tiny', 'foreign')
    await second.stop()
    await first.untilReady('tiny')
    expect(await kinds(first, service)).toEqual([
      'started',
      'ready',
      'evicted',
      'stopped',
      'broughtBack',
      'started',
      'ready',
    ])
  })

  test('a hold is for one object: made again under its name, the service is served', async () => {
    await using world = await open()
    const { agent } = await world.serving('tiny')
    await run(agent, { name: 'evict', service: { namespace: world.namespace, name: 'tiny' } })
    await agent.until('tiny', ({ reason }) => reason === 'Held')
    await world.deleteService('tiny')
    await agent.untilNotShown('tiny')
    await world.applyService('tiny')
    await agent.untilReady('tiny')
    await eventually(async () => !(await readFile(join(agent.stateDir, 'absences.json'), 'utf8')).includes('tiny'))
  })

  test('a paused machine withdraws its addresses and keeps its models, over a restart too, until it is resumed', async () => {
    await using world = await open()
    const { agent, pid, port } = await world.serving('tiny')
    expect((await run(agent, { name: 'pauseNode' })).outcome).toBe('done')
    await world.untilNotReady('tiny')
    await world.apply('later')
    await agent.until('later', ({ reason }) => reason === 'Paused')
    expect(agent.view('tiny')).toMatchObject({ state: 'unready', reason: 'Paused', pid })
    expect(agent.snapshot).toMatchObject({ host: { paused: true }, notices: [saying(/^This machine was paused at /)] })
    expect(agent.starts).toBe(1)

    expect((await run(agent, { name: 'resumeNode' })).outcome).toBe('done')
    await agent.untilReady('tiny')
    expect(await world.published('tiny')).toEqual({ address: hostIp, port, ready: true })
    expect(agent.view('tiny')).toMatchObject({ pid })
    await agent.untilReady('later')

    await run(agent, { name: 'pauseNode' })
    await agent.stop()
    const again = await world.startAgent()
    await again.until('tiny', ({ reason }) => reason === 'Paused')
    expect(again.snapshot.host.paused).toBe(true)
    expect(again.starts).toBe(0)
  })

  test('skipDrain cuts short what a stop waits for; where nothing drains it is refused', async () => {
    await using world = await open()
    const { agent, pid, port } = await world.serving('tiny', { script: { tokenMs: 400 } })
    const service = { namespace: world.namespace, name: 'tiny' }
    expect(await run(agent, { name: 'skipDrain', service })).toMatchObject({ outcome: 'refused' })
    const asking = fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ messages: [], max_tokens: 10 }),
    }).then((response) => response.text())
    const answered = asking.then(
      () => 'answered',
      () => 'cut short',
    )
    await eventually(async () => (await metric(port, 'llamacpp:requests_processing')) === 1)
    await run(agent, { name: 'stop', service })
    await eventually(async () => (await run(agent, { name: 'skipDrain', service })).outcome === 'done')
    await untilGone(pid)
    expect(await answered).toBe('cut short')
  })

  test('the same request id is carried out once and answered the same, also while it is under way', async () => {
    const clock = Date.now.bind(Date)
    let aheadMs = 0
    using _set = vi.spyOn(Date, 'now').mockImplementation(() => clock() + aheadMs)
    await using world = await open()
    const { agent } = await world.serving('tiny')
    const service = { namespace: world.namespace, name: 'tiny' }
    const id = randomUUID()
    const [first, second] = await Promise.all([
      run(agent, { name: 'stop', service }, id),
      run(agent, { name: 'stop', service }, id),
    ])
    aheadMs = 24 * 3_600_000
    await run(agent, { name: 'start', service })
    aheadMs = 0
    // As it was answered then, whatever is so by now, and however the clock was set meanwhile.
    const third = await agent.agent.command({ requestId: id, command: command.parse({ name: 'stop', service }) })
    expect([second, third]).toEqual([first, first])
    expect(await specOf(world, 'tiny')).toMatchObject({ suspend: false })
    expect(await run(agent, { name: 'start', service }, id)).toMatchObject({
      outcome: 'refused',
      message: saying(/request id/),
    })
  })

  test('the Events of a service are told newest first, and only of those that are shown', async () => {
    await using world = await open()
    const { agent } = await world.serving('tiny')
    await eventually(async () => (await world.eventReasons('tiny')).length >= 5)
    await world.admin.create({
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: 'stray', namespace: world.namespace },
      involvedObject: { kind: 'InferenceService', namespace: world.namespace, name: 'stray' },
      reason: 'Stray',
    })
    const service = { namespace: world.namespace, name: 'tiny' }
    const answers = await Promise.all([
      agent.agent.query({ name: 'events', limit: 50 }),
      agent.agent.query({ name: 'events', service, limit: 2 }),
    ])
    const reasons = answers.map((answer) => ('events' in answer ? answer.events.map(({ reason }) => reason) : []))
    expect(reasons[0]?.toSorted()).toEqual(['Claimed', 'Fetched', 'Fetching', 'Ready', 'Started'])
    expect(reasons[1]).toHaveLength(2)
    expect(answers).toMatchObject([
      { hasMore: false },
      { hasMore: true, events: [{ source: 'llmkube-metal-agent', service }, {}] },
    ])
  })
})

describe('without the cluster', () => {
  test('a stop is refused, the hold works at once and is told when the cluster is back', async () => {
    await using sim = await KubeSim.start()
    await using world = await AgentWorld.open(sim.connection())
    const { agent, pid } = await world.serving('tiny')
    const service = { namespace: world.namespace, name: 'tiny' }
    await sim.stop()
    await agent.untilCluster('stale')

    expect(await run(agent, { name: 'stop', service })).toMatchObject({
      outcome: 'refused',
      by: 'cluster',
      message: saying(/the cluster does not answer/),
      instead: { command: { scope: 'here' } },
    })
    expect((await run(agent, { name: 'stop', service, scope: 'here' })).outcome).toBe('done')
    await untilGone(pid)
    await agent.until('tiny', ({ state, reason }) => state === 'stopped' && reason === 'Held')

    await sim.start()
    await agent.untilCluster('live')
    await world.untilNotReady('tiny')
    await eventually(async () => (await world.condition('tiny')) === 'False Held')
  })
})

describe('another context', () => {
  test('is served after everything of the first came down; its choice is kept, and a flag wins over it', async () => {
    await using here = await KubeSim.start()
    await using there = await KubeSim.start()
    await using world = await AgentWorld.open(here.connection())
    await using other = await AgentWorld.open(there.connection(), { namespace: 'default' })
    const kubeconfig = join(world.folder, 'both.kubeconfig')
    await writeFile(kubeconfig, kubeconfigOf({ here: here.connection(), there: there.connection() }))
    const settings = { namespace: undefined }
    const { agent, pid } = await world.serving('tiny', { kubeconfig, settings })
    await other.apply('other')

    expect(await run(agent, { name: 'selectContext', context: 'nowhere' })).toMatchObject({
      outcome: 'refused',
      message: saying(/has no context "nowhere"/),
    })
    expect((await run(agent, { name: 'selectContext', context: 'there' })).outcome).toBe('accepted')
    await untilGone(pid)
    await agent.untilReady('other', 'default')
    expect(agent.snapshot.services.map(({ name }) => name)).toEqual(['other'])
    expect(await world.published('tiny')).toMatchObject({ ready: false })
    expect(await world.claim('tiny')).toEqual({ heartbeat: saying(/Z$/), releasedBy: saying(/^[0-9a-f-]{36}$/) })
    const contexts = await agent.agent.query({ name: 'contexts' })
    expect(contexts).toEqual({
      kubeconfig,
      contexts: [
        { name: 'here', server: here.connection().server, isDefault: true, inUse: false },
        { name: 'there', server: there.connection().server, isDefault: false, inUse: true },
      ],
    })
    await agent.stop()

    const again = await world.startAgent({ kubeconfig, settings })
    expect((await again.untilCluster('live')).context).toBe('there')
    await again.stop()
    const flagged = await world.startAgent({ kubeconfig, settings: { ...settings, context: 'here' } })
    expect((await flagged.untilCluster('live')).context).toBe('here')
    expect(await run(flagged, { name: 'selectContext', context: 'there' })).toMatchObject({
      outcome: 'refused',
      message: saying(/as --context says/),
    })
  })

  test('is reached although the first cluster is gone', async () => {
    await using here = await KubeSim.start()
    await using there = await KubeSim.start()
    await using world = await AgentWorld.open(here.connection())
    await using other = await AgentWorld.open(there.connection(), { namespace: 'default' })
    const kubeconfig = join(world.folder, 'both.kubeconfig')
    await writeFile(kubeconfig, kubeconfigOf({ here: here.connection(), there: there.connection() }))
    const { agent, pid } = await world.serving('tiny', { kubeconfig, settings: { namespace: undefined } })
    await other.apply('other')
    await here.stop()
    expect((await run(agent, { name: 'selectContext', context: 'there' })).outcome).toBe('accepted')
    await untilGone(pid)
    await agent.untilReady('other', 'default')
    await here.start()
  })
})

describe('the kubeconfig', () => {
  test('read anew touches no server; where its context stands for another cluster, moving there is offered', async () => {
    await using here = await KubeSim.start()
    await using there = await KubeSim.start()
    await using world = await AgentWorld.open(here.connection())
    const kubeconfig = join(world.folder, 'one.kubeconfig')
    await writeFile(kubeconfig, kubeconfigOf({ lab: here.connection() }))
    const { agent, pid } = await world.serving('tiny', { kubeconfig })
    expect(await run(agent, { name: 'reloadKubeconfig' })).toMatchObject({
      outcome: 'done',
      message: saying(/stays with "lab"/),
    })
    await writeFile(kubeconfig, kubeconfigOf({ lab: there.connection() }))
    expect(await run(agent, { name: 'reloadKubeconfig' })).toMatchObject({
      outcome: 'refused',
      instead: { command: { name: 'selectContext', context: 'lab' } },
    })
    await writeFile(kubeconfig, 'nonsense: [')
    expect((await run(agent, { name: 'reloadKubeconfig' })).outcome).toBe('failed')
    expect(agent.view('tiny')).toMatchObject({ state: 'ready', pid })
  })
})

test('what is protected by its specification stays so as a person set it too, and the refusal changes nothing', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const { agent } = await world.serving('tiny', { spec: { evictionProtection: true } })
  const service = { namespace: world.namespace, name: 'tiny' }
  expect(await run(agent, { name: 'protect', service, protect: true })).toMatchObject({ outcome: 'done' })
  expect(await run(agent, { name: 'protect', service, protect: false })).toMatchObject({ outcome: 'refused' })
  const kept: unknown = JSON.parse(await readFile(join(agent.stateDir, 'absences.json'), 'utf8'))
  expect(kept).toMatchObject({ protected: [{ name: 'tiny', uid: agent.view('tiny')?.uid }] })
  await world.patchSpec('tiny', { evictionProtection: false })
  await eventually(async () => (await run(agent, { name: 'protect', service, protect: false })).outcome === 'done')
})

describe('settings', () => {
  test('of the host address: one of this machine may be chosen and what is published follows; a flag wins', async () => {
    await using sim = await KubeSim.start()
    await using world = await AgentWorld.open(sim.connection())
    const agent = await world.startAgent({ settings: { hostIp: undefined } })
    const answer = await agent.agent.query({ name: 'hostAddresses' })
    if (!('addresses' in answer)) throw new Error('no answer')
    const own = answer.addresses.find(({ unfit }) => unfit === undefined)
    if (!own) throw new Error('This machine has no address to publish.')
    expect((await run(agent, { name: 'setHostAddress', address: own.address })).outcome).toBe('done')
    expect(agent.snapshot.host).toMatchObject({ address: own.address, message: saying(/chosen by hand/) })
    expect(await agent.agent.query({ name: 'hostAddresses' })).toMatchObject({ automatic: false })
    expect(await lastUndo(agent)).toEqual({ name: 'setHostAddress', address: 'automatic' })
    const warning = '192.0.2.99 is on no interface of this machine: Pods reach it only if something forwards there.'
    expect(await run(agent, { name: 'setHostAddress', address: 'FE80:0::1' })).toMatchObject({
      ...{
        outcome: 'refused',
        message: expect.stringMatching(/^fe80::1 cannot be published \(a link-local address\)/) as string,
      },
    })
    expect(await run(agent, { name: 'setHostAddress', address: '192.0.2.99' })).toMatchObject({
      outcome: 'done',
      message: expect.stringContaining(warning) as unknown,
    })
    expect(agent.snapshot).toMatchObject({
      host: { address: '192.0.2.99' },
      notices: expect.arrayContaining([warning]) as unknown,
    })
    await world.apply('tiny')
    const { message } = await agent.untilReady('tiny')
    const condition = await eventually(async () => {
      const told = await world.conditionMessage('tiny')
      return told?.startsWith('Serving') === true && told
    })
    expect([message, condition]).toEqual(Array(2).fill(expect.stringMatching(`^Serving at .* ${warning}`)))
    expect((await run(agent, { name: 'setHostAddress', address: 'automatic' })).outcome).toBe('done')
    await agent.stop()
    const flagged = await world.startAgent()
    expect(await run(flagged, { name: 'setHostAddress', address: own.address })).toMatchObject({
      outcome: 'refused',
      message: saying(/as --host-ip says/),
    })
  })
})

test('a firewall of macOS that does not let the server through is a notice with what to do, until it does', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const memory = new StatedMemory()
  const allowed = new Set<string>()
  memory.platform.firewall = () => Promise.resolve({ state: 'byProgram', allowed })
  const agent = await world.startAgent({ memory })
  const noticed = () => agent.snapshot.notices.find((notice) => notice.includes('firewall'))
  expect(noticed()).toBeUndefined()
  await world.apply('tiny')
  await agent.untilReady('tiny')
  const notice = await eventually(noticed)
  const file = await realpath(sampleServerPath)
  expect(notice).toContain(`sudo /usr/libexec/ApplicationFirewall/socketfilterfw --unblockapp ${file}`)
  allowed.add(file)
  await run(agent, { name: 'restart', service: { namespace: world.namespace, name: 'tiny' } })
  await eventually(() => noticed() === undefined)
})

test('a shutdown is answered before it begins, and only where the host of the agent lets it', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const order: string[] = []
  const agent = await world.startAgent({ onShutdown: ({ keepServing }) => void order.push(`ends ${keepServing}`) })
  order.push((await run(agent, { name: 'shutdown' })).outcome)
  order.push((await run(agent, { name: 'shutdown', keepServing: true })).outcome)
  await eventually(() => order.length === 4)
  expect(order.toSorted()).toEqual(['accepted', 'accepted', 'ends false', 'ends true'])
  expect(order[0]).toBe('accepted')
  const other = await world.startAgent({ name: 'other' })
  expect(await run(other, { name: 'shutdown' })).toMatchObject({ outcome: 'refused' })
})

function fields(object: unknown, ...names: readonly string[]): Record<string, unknown> {
  const entries = typeof object === 'object' && object !== null ? Object.entries(object) : []
  return Object.fromEntries(entries.filter(([name]) => names.includes(name)))
}

function kubeconfigOf(contexts: Readonly<Record<string, ReturnType<KubeSim['connection']>>>): string {
  const all = Object.entries(contexts)
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': all[0]?.[0],
    clusters: all.map(([name, { server, ca }]) => ({
      name,
      cluster: { server, ...(ca !== '' && { 'certificate-authority-data': Buffer.from(ca).toString('base64') }) },
    })),
    users: all.map(([name, { token }]) => ({ name, user: { token } })),
    contexts: all.map(([name]) => ({ name, context: { cluster: name, user: name } })),
  })
}

function saying(pattern: RegExp): unknown {
  return expect.stringMatching(pattern)
}

/** Undefined where the server does not tell. */
async function metric(port: number, name: string): Promise<number | undefined> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  const value = new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1]
  return value === undefined ? undefined : Number(value)
}
