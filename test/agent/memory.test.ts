import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { AgentWorld, fakeGguf, inferenceService, untilGone } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { patienceMs, type RunningAgent } from '../support/running-agent.ts'
import { StatedMemory } from '../support/stated-memory.ts'

const mib = 1024 ** 2
const gib = 1024 * mib

/** Room for one model of the tests, which are taken to need 537 MB each, and not for two. */
const forOne = { memoryBudgetBytes: 800 * mib }

/** By the Go agent's rule for a model whose header says nothing: a fifth more than its size, and 512 MiB. */
const needBytes = Math.ceil(fakeGguf.length * 1.2) + 512 * mib

const order = (agent: RunningAgent) => agent.snapshot.memory?.waiting.map((key) => key.split('/')[1])

const pressureIs = (agent: RunningAgent, level: string) =>
  eventually(() => agent.snapshot.memory?.pressure === level, { timeoutMs: patienceMs, what: `${level} pressure` })

const soon = (what: string, check: () => Promise<boolean> | boolean) =>
  eventually(check, { timeoutMs: patienceMs, what })

describe('memory', () => {
  const api = useRealApiServer()
  const open = () => AgentWorld.open(api().connection)
  const command = (agent: RunningAgent, name: 'evict' | 'bringBack' | 'protect', service: object, protect = true) =>
    agent.agent.command({
      requestId: crypto.randomUUID(),
      command: { name, service, ...(name === 'protect' && { protect }) } as never,
    })

  test('that has room for one of two models lets the second wait and says why, and start at once when the first is gone', async () => {
    await using world = await open()
    // It is not looked at again by the clock.
    const { agent, ...first } = await world.serving('first', { settings: forOne, memoryTrial: { everyMs: 3_600_000 } })
    await world.apply('second')
    const waiting = await agent.until('second', ({ reason }) => reason === 'InsufficientMemory')
    expect(waiting).toMatchObject({
      state: 'waiting',
      memory: { needBytes, priority: 'normal', isProtected: false, place: 1 },
    })
    expect(waiting.message).toMatch(
      /^Needs 537 MB, 302 MB left in the budget of 839 MB \(1st waiting\)\. What would make it fit: evict first: frees 537 MB; or raise the memory budget to 1\.1 GB/,
    )
    expect(waiting.memory?.waysToFit).toContainEqual(
      expect.objectContaining({ kind: 'evict', evict: [`${world.namespace}/first`] }),
    )
    expect(agent.starts).toBe(1)
    await soon('the condition', async () => (await world.condition('second')) === 'False InsufficientMemory')
    expect((await world.eventReasons('second')).filter((reason) => reason === 'InsufficientMemory')).toHaveLength(1)

    await world.deleteService('first')
    await agent.untilReady('second')
    await untilGone(first.pid)
    await soon('no stale scheduling status', async () => {
      const { schedulingStatus } = await world.status('second')
      return schedulingStatus !== 'InsufficientMemory'
    })
    expect(agent.starts).toBe(2)
  })

  test('goes to the higher priority first, whoever came first', async () => {
    await using world = await open()
    const { agent } = await world.serving('first', { settings: forOne })
    await world.apply('low', { spec: { priority: 'low' } })
    await agent.until('low', ({ memory }) => memory?.place === 1)
    await world.apply('high', { spec: { priority: 'high' } })
    await agent.until('high', ({ memory }) => memory?.place === 1)
    const low = await agent.until('low', ({ message }) => message.includes('(2nd waiting)'))
    expect([low.memory?.place, order(agent)]).toEqual([2, ['high', 'low']])
    await world.deleteService('first')
    await agent.untilReady('high')
    await agent.until('low', ({ memory }) => memory?.place === 1)
    expect(agent.starts).toBe(2)
  })

  test('that nobody can tell refuses a start, or lets it pass with the mode warn', async () => {
    await using world = await open()
    const memory = new StatedMemory()
    memory.isUnknown = true
    const agent = await world.startAgent({ memory })
    await world.apply('tiny')
    const { message } = await agent.until('tiny', ({ reason }) => reason === 'MemoryCheckFailed')
    expect(message).toBe('The available memory is not known: the system does not report it.')
    await soon('the Event', async () => (await world.eventReasons('tiny')).includes('MemoryCheckFailed'))
    const set = { name: 'updateSettings', settings: { memoryCheckMode: 'warn' } } as const
    await agent.command(set)
    await agent.untilReady('tiny')
  })

  test('keeps a changed server that would fit nowhere from replacing the one that serves', async () => {
    await using world = await open()
    const { agent, ...before } = await world.serving('tiny', { settings: forOne })
    const set = { name: 'updateSettings', settings: { memoryBudgetBytes: 400 * mib } } as const
    await agent.command(set)
    await world.patchSpec('tiny', { contextSize: 4096 })
    const kept = await agent.until('tiny', ({ message }) => message.includes('would not fit'))
    expect(kept).toMatchObject({ state: 'ready', reason: 'Serving', pid: before.pid })
    expect(kept.message).toContain(
      'so the previous one keeps serving: Needs 537 MB, more than the whole budget of 419 MB.',
    )
    const back = { name: 'updateSettings', settings: { memoryBudgetBytes: null } } as const
    await agent.command(back)
    await agent.untilReadyAgain('tiny', before.pid)
  })

  test('counts what an earlier agent left running, by its estimate', async () => {
    await using world = await open()
    const { agent, pid } = await world.serving('first', { settings: forOne })
    await agent.leave()
    const next = await world.startAgent({ settings: forOne })
    await world.apply('second')
    expect(await next.untilReady('first')).toMatchObject({ pid, memory: { needBytes } })
    const { message } = await next.until('second', ({ reason }) => reason === 'InsufficientMemory')
    expect(message).toContain('302 MB left in the budget of 839 MB')
  })

  test('that is critically short starts nothing, evicts the least important model, and brings it back when it has passed', async () => {
    await using world = await open()
    const memory = new StatedMemory()
    memory.totalBytes = 1.5 * gib
    memory.availableBytes = 1.4 * gib
    const settings = {
      memoryFraction: 1,
      evictionEnabled: true,
    }
    const { agent, ...keeper } = await world.serving('keeper', {
      memory,
      settings,
      memoryTrial: { everyMs: 100, evictionShare: 0.2, comeBackMs: 1_000 },
      memoryClock: () => 20 * performance.now(),
      script: { takeMiB: 250 },
    })
    await world.apply('spare', { script: { takeMiB: 250 }, spec: { priority: 'low' } })
    const spare = await agent.untilReady('spare')
    await soon('real footprints', () => {
      const sizes = Object.values(agent.snapshot.figures).map(({ footprintBytes = 0 }) => footprintBytes)
      return sizes.length === 2 && sizes.every((bytes) => bytes > 250 * mib)
    })
    expect(agent.snapshot.memory?.nextEviction).toBe(`${world.namespace}/spare`)

    memory.kernelLevel = 'critical'
    await pressureIs(agent, 'critical')
    const out = await agent.until('spare', ({ hold }) => hold !== undefined)
    expect(out.hold).toMatchObject({ cause: 'evicted', by: 'pressure' })
    await untilGone(spare.pid)
    await soon('the reason Evicted', async () => (await pressureReason(world, 'spare')) === 'True Evicted')
    await soon('the Event', async () => (await world.eventReasons('spare')).includes('Evicted'))
    await soon('the level', async () => (await pressureReason(world, 'keeper')) === 'True Critical')
    await world.apply('newcomer')
    await agent.until('newcomer', ({ reason }) => reason === 'MemoryPressure')
    expect(agent.view('keeper')?.pid).toBe(keeper.pid)
    await soon('why not the last', async () => (await world.eventReasons('keeper')).includes('EvictionSkipped'))

    await world.deleteService('newcomer')
    memory.kernelLevel = 'normal'
    const back = await agent.untilReadyAgain('spare', spare.pid)
    expect([back.hold, agent.view('keeper')?.pid]).toEqual([undefined, keeper.pid])
    await soon('the return to normal', async () => (await pressureReason(world, 'keeper')) === 'False Normal')
    const changes = (await world.eventReasons('keeper')).filter((reason) => reason === 'MemoryPressureLevelChanged')
    expect(changes).toHaveLength(2)
    const told = await agent.agent.query({ name: 'history', limit: 50 } as never)
    expect(JSON.stringify(told)).toMatch(
      /"kind":"broughtBack".*"kind":"evicted"|"kind":"evicted".*"kind":"broughtBack"/,
    )
  })

  test('is given up by a person’s word until they take it back, over restarts of the agent, and never by what they protect', async () => {
    await using world = await open()
    const agent = await world.startAgent({ memoryTrial: { comeBackMs: 1_000 } })
    await world.apply('tiny')
    await world.apply('other')
    const { pid } = await agent.untilReady('tiny')
    await agent.untilReady('other')
    const service = { namespace: world.namespace, name: 'tiny' }
    expect(await command(agent, 'protect', { ...service, name: 'other' })).toMatchObject({ outcome: 'done' })
    await agent.until('other', ({ memory }) => memory?.isProtected === true)
    expect(await command(agent, 'evict', service)).toMatchObject({ outcome: 'done' })
    await untilGone(pid)
    await agent.leave()

    const next = await world.startAgent({ memoryTrial: { comeBackMs: 1_000 } })
    await next.untilReady('other')
    const held = await next.until('tiny', 'stopped')
    expect([held.hold?.by, next.view('other')?.memory?.isProtected]).toEqual(['person', true])
    expect(await command(next, 'bringBack', service)).toMatchObject({ outcome: 'done' })
    await next.untilReady('tiny')
  })
})

test('that was short brings back what it evicted, but for what a person then stopped or evicted', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const memory = new StatedMemory()
  memory.kernelLevel = 'critical'
  const memoryTrial = { everyMs: 100, comeBackMs: 1_000 }
  const options = { memory, memoryTrial, memoryClock: () => 20 * performance.now() }
  const names = ['stopped', 'evicted', 'spare']
  const service = (name: string) => ({ namespace: world.namespace, name })
  const since = new Date().toISOString()
  const absences = names.map(async (name) => {
    await world.apply(name)
    const uid = (await world.admin.get(inferenceService(name)))?.metadata.uid
    const absence = { kind: 'evicted', since, message: 'Evicted from memory, which was critically short.' }
    return { uid, namespace: world.namespace, name, cluster: sim.connection().server, absence }
  })
  const kept = { schema: 1, pausedSince: null, absences: await Promise.all(absences), protected: [], evictions: {} }
  const { stateDir } = await world.preparedAgent(options)
  await writeFile(join(stateDir, 'absences.json'), JSON.stringify(kept))
  const busy = { fault: { kind: 'status', code: 503 }, times: Infinity } as const
  const unlisted = sim.faults.add({ on: { verb: 'list', resource: 'inferenceservices' }, ...busy })
  const agent = await world.startAgent(options)
  await agent.until('stopped', 'waiting')
  const early = await agent.command({ name: 'evict', service: service('stopped') })
  expect(early.message).toMatch(/has not read \S+ yet/)
  unlisted.remove()
  for (const name of names) await agent.until(name, ({ hold, state }) => hold?.by === 'pressure' && state === 'stopped')
  const stop = { name: 'stop', service: service('stopped'), scope: 'here' } as const
  for (const asked of [stop, { name: 'evict', service: service('evicted') } as const])
    expect((await agent.command(asked)).outcome).toBe('done')
  for (const name of ['stopped', 'evicted']) await agent.until(name, ({ hold }) => hold?.by === 'person')
  memory.kernelLevel = 'normal'
  await agent.untilReady('spare')
  const held = names.map((name) => agent.view(name)?.hold)
  expect(held.map((hold) => hold && [hold.by, hold.cause])).toEqual([
    ['person', 'stopped'],
    ['person', 'evicted'],
    undefined,
  ])
})

async function pressureReason(world: AgentWorld, name: string): Promise<string | undefined> {
  const found = (await world.status(name)).conditions.find(({ type }) => type === 'MemoryPressure')
  return found && `${found.status} ${found.reason}`
}
