import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import type { ImmediateSetting, SettingsPatch } from '../../src/contract/settings.ts'
import { AgentProcess } from '../support/agent-process.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { endlessAnswer } from '../support/endless-answer.ts'
import { eventually } from '../support/eventually.ts'
import { exportedFigures } from '../support/exported-figures.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { powerStandIns, type PowerStandIns } from '../support/power/stand-ins.ts'
import type { RunningAgent } from '../support/running-agent.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { servingWorld } from '../support/serving-world.ts'
import { StatedMemory, statedPlatform } from '../support/stated-memory.ts'

const mib = 1024 ** 2
const gib = 1024 * mib

/** While memory is short the agent looks at it every five seconds: what happens sooner comes from the change of the setting. */
const atOnceMs = 4_000

/** One agent with two services, of which `spare` is evicted first. It looks at memory by the clock only while memory is short. */
interface Scene extends AsyncDisposable {
  readonly agent: RunningAgent
  readonly memory: StatedMemory
  readonly standIns: PowerStandIns
  /** The clock by which memory pressure comes and goes: it runs sixty times as fast. */
  readonly now: () => number
  readonly set: (settings: SettingsPatch) => Promise<void>
}

let scene: Scene

beforeAll(async () => {
  scene = await opened()
})
afterAll(async () => scene[Symbol.asyncDispose]())
afterEach(async () => {
  await scene.set({
    ...{ sleepPolicy: null, memoryFraction: null, memoryBudgetBytes: null },
    ...{ evictionEnabled: null, applePowerEnabled: null, powerSource: null, macmonBin: null },
  })
  await eventually(async () => (await scene.standIns.living()) === 0, { what: 'the end of what measured' })
})

type Proof =
  | (() => Promise<void>)
  /** A test that changes it on a running agent, in a file of this folder. */
  | { readonly file: string; readonly title: string }

/** Every setting that takes effect at once has a row: without one this does not compile. */
const proofs: Readonly<Record<ImmediateSetting, Proof>> = {
  // First in the table: soon after the servers started, the next look by the clock is far off.
  sleepPolicy: async () => {
    const { agent, set } = scene
    const { port } = await agent.untilReady('keeper')
    await using _ = await endlessAnswer(port)
    expect(agent.snapshot.supply).toMatchObject({ source: 'mains', isKeptAwake: false })
    await set({ sleepPolicy: 'while-serving' })
    await eventually(() => agent.snapshot.supply?.isKeptAwake === true, { timeoutMs: 10_000, what: 'the hold' })
  },
  awakeOnBattery: {
    file: 'supply.test.ts',
    title: 'on battery the system is kept awake only where a person wants that',
  },

  publish: async () => {
    const { agent, set } = scene
    await agent.untilReady('keeper')
    await set({ publish: 'relay' })
    await eventually(() =>
      agent.snapshot.notices.some((notice) => notice.startsWith('No relay of the cluster reaches')),
    )
    expect(agent.view('keeper')).toMatchObject({ state: 'ready' })
    await set({ publish: null })
    await eventually(() => agent.snapshot.notices.every((notice) => !notice.startsWith('No relay of the cluster')))
  },

  namespace: {
    file: 'cluster-settings.test.ts',
    title: 'another namespace is served at once, after what runs for the first came down, and after a restart too',
  },
  kubeconfig: {
    file: 'cluster-settings.test.ts',
    title:
      'another kubeconfig is served at once, in its context of the same name or else its own, and after a restart too',
  },

  omlxStart: {
    file: 'omlx-started.test.ts',
    title:
      'an oMLX that the agent starts has a key and a folder of its own, serves models of the store and of lent folders, outlives the agent, and ends with it',
  },
  ollamaStart: {
    file: 'ollama-started.test.ts',
    title:
      'an Ollama that the agent starts serves again after a crash, outlives the agent, is ended when it is switched off, and with the agent',
  },
  downloadBytesPerSecond: {
    file: 'models.test.ts',
    title: 'how fast models download counts at once',
  },

  memoryFraction: async () => {
    const { agent, memory, set } = scene
    expect(agent.snapshot.memory?.budgetBytes).not.toBe(memory.totalBytes / 2)
    await set({ memoryFraction: 0.5 })
    expect(agent.snapshot.memory?.budgetBytes).toBe(memory.totalBytes / 2)
  },
  memoryBudgetBytes: async () => {
    const { agent, set } = scene
    expect(agent.snapshot.memory?.budgetBytes).not.toBe(24 * gib)
    await set({ memoryBudgetBytes: 24 * gib })
    expect(agent.snapshot.memory?.budgetBytes).toBe(24 * gib)
  },
  memoryCheckMode: {
    file: 'memory.test.ts',
    title: 'that nobody can tell refuses a start, or lets it pass with the mode warn',
  },
  evictionEnabled: async () => {
    const { agent, set } = scene
    await agent.untilReady('spare')
    await short()
    await untilSpared()
    await set({ evictionEnabled: true })
    await untilEvicted()
    await calm()
    await broughtBack()
  },

  applePowerEnabled: async () => {
    // Nobody looks.
    expect(await newCalls(() => scene.set({ applePowerEnabled: true }))).toEqual([powermetrics(10_000)])
    await scene.set({ applePowerEnabled: false })
    await eventually(async () => (await scene.standIns.living()) === 0, { what: 'the end of powermetrics' })
  },
  powerSource: async () => {
    using _ = openWindow()
    await newCalls(() => scene.set({ applePowerEnabled: true }))
    expect(await newCalls(() => scene.set({ powerSource: 'macmon' }))).toEqual(['macmon -i 1000 pipe'])
  },
  macmonBin: async () => {
    using _ = openWindow()
    await newCalls(() => scene.set({ applePowerEnabled: true, powerSource: 'macmon' }))
    expect(await newCalls(() => scene.set({ macmonBin: '/opt/another/macmon' }))).toEqual(['macmon -i 1000 pipe'])
  },

  logLevel: async () => {
    await using world = await servingWorld()
    const args = ['--allow-unsafe-extra-args', '--llama-server', sampleServerPath]
    await using agent = await AgentProcess.start({ kubeconfig: world.sim.kubeconfig(), args })
    world.apply('first')
    await agent.service('first', 'ready')
    const details = () => agent.log.filter(({ level }) => level === 'debug')
    expect(details()).toEqual([])
    expect(await agent.run('settings', 'set', 'log-level', 'debug')).toMatchObject({ code: 0 })
    world.apply('second')
    await eventually(() => details().length > 0, { what: 'a line of the log with more detail' })
  },
}

test.each(Object.entries(proofs))('a change of %s takes effect at once', async (_, proof) => {
  if (typeof proof === 'function') await proof()
  else expect(await readFile(join(import.meta.dirname, proof.file), 'utf8')).toContain(`test('${proof.title}'`)
})

async function opened(): Promise<Scene> {
  await using parts = new AsyncDisposableStack()
  const standIns = parts.use(await powerStandIns())
  const sim = parts.use(await KubeSim.start())
  const world = parts.use(await AgentWorld.open(sim.connection()))
  const now = () => 60 * performance.now()
  const memory = new StatedMemory(
    statedPlatform(hostPlatform(), {
      footprints: (pids) => Promise.resolve(new Map(pids.map((pid) => [pid, 100 * mib]))),
      powerSupply: () => Promise.resolve({ source: 'mains', charge: 0.84, lowPowerMode: false }),
      awakeProgram: () => ({ command: '/bin/sh', args: ['-c', 'cat; exit 0', randomUUID()] }),
    }),
  )
  const agent = await world.startAgent({
    memory,
    memoryClock: now,
    settings: { sleepPolicy: 'never' },
    memoryTrial: { everyMs: 3_600_000, evictionShare: 0 },
    powerTrial: {
      ...{ platform: 'darwin', commands: standIns.commands, lookMs: 50, stallMs: 60_000 },
      findMacmon: () => Promise.resolve({ kind: 'found', path: standIns.macmon }),
    },
  })
  await world.apply('keeper', { script: { tokenMs: 50 } })
  await world.apply('spare', { spec: { priority: 'low' } })
  for (const name of ['keeper', 'spare']) await agent.untilReady(name)
  const kept = parts.move()
  const stated: Scene = {
    ...{ agent, memory, standIns, now },
    set: async (settings) => {
      expect(await agent.command({ name: 'updateSettings', settings })).toMatchObject({ outcome: 'done' })
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
  return stated
}

/** Has memory looked at, by a setting that is at its default here or no longer needed. */
const look = () => scene.set({ evictionEnabled: null })

/** Memory is critically short, and has been for long enough that something has to go. */
async function short(): Promise<void> {
  const { agent, memory, now } = scene
  memory.kernelLevel = 'critical'
  await look()
  await eventually(() => agent.snapshot.memory?.pressure === 'critical')
  const since = now()
  // Also past the pause after an eviction before.
  await eventually(() => now() - since > 30_000)
}

/** After a look nothing was evicted, and nothing is being decided: the next look by the clock comes in five seconds. */
async function untilSpared(): Promise<void> {
  const { agent } = scene
  const skipped = async () => {
    const figures = await exportedFigures(agent.agent.metrics, /^evictions_skipped_total/)
    return Object.values(figures).reduce((sum, count) => sum + count, 0)
  }
  const before = await skipped()
  await look()
  await eventually(async () => (await skipped()) > before, { what: 'the decision to evict nothing' })
  expect(agent.view('spare')?.state).toBe('ready')
}

const untilEvicted = () =>
  eventually(() => scene.agent.view('spare')?.hold?.by === 'pressure', { timeoutMs: atOnceMs, what: 'the eviction' })

async function calm(): Promise<void> {
  const { agent, memory } = scene
  memory.kernelLevel = 'normal'
  await eventually(async () => {
    await look()
    return agent.snapshot.memory?.pressure === 'normal'
  })
}

async function broughtBack(): Promise<void> {
  const { agent } = scene
  const service = agent.view('spare')
  if (!service) throw new Error('There is no service spare.')
  await agent.command({ name: 'bringBack', service: { namespace: service.namespace, name: 'spare' } })
  await agent.untilReady('spare')
}

/** Somebody looks, and asks for nothing by themselves. */
function openWindow(): Disposable {
  const leave = scene.agent.agent.subscribe(() => undefined, 'window')
  return { [Symbol.dispose]: leave }
}

const powermetrics = (intervalMs: number) => `-n powermetrics --samplers cpu_power,gpu_power -i ${intervalMs}`

/** Which programs a change starts: at least one. */
async function newCalls(change: () => Promise<void>): Promise<string[]> {
  const before = (await scene.standIns.calls()).length
  await change()
  return eventually(
    async () => {
      const calls = (await scene.standIns.calls()).slice(before)
      return calls.length > 0 && calls
    },
    { timeoutMs: 20_000, what: 'a program that measures' },
  )
}
