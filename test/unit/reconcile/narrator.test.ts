import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { EventRecorder } from '../../../src/agent-core/kube/event-recorder.ts'
import { KubeApi } from '../../../src/agent-core/kube/kube-api.ts'
import { ObjectCache } from '../../../src/agent-core/kube/object-cache.ts'
import { PinnedContext } from '../../../src/agent-core/kube/pinned-context.ts'
import { parseInferenceService, resources, type InferenceService } from '../../../src/agent-core/kube/resources.ts'
import { StatusWriter } from '../../../src/agent-core/kube/status-writer.ts'
import type { ServerRuntime } from '../../../src/agent-core/servers/probe.ts'
import type { Failure, ServerState } from '../../../src/agent-core/servers/server-state.ts'
import { Narrator } from '../../../src/agent-core/reconcile/narrator.ts'
import type { Observation, Plan } from '../../../src/agent-core/reconcile/plan/observation.ts'
import type { Transition } from '../../../src/agent-core/reconcile/transitions.ts'
import type { HistoryEntry } from '../../../src/contract/queries.ts'
import { writeKubeconfig } from '../../support/control-plane/kubeconfig.ts'
import { KubeSim } from '../../support/kube-sim/kube-sim.ts'
import { Recorder } from '../../support/running-agent.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const key = 'default/tiny'
const inferenceService = {
  apiVersion: 'inference.llmkube.dev/v1alpha1',
  kind: 'InferenceService',
  metadata: { name: 'tiny', namespace: 'default' },
  spec: { modelRef: 'tiny' },
}

let sim: KubeSim
let folder: Awaited<ReturnType<typeof temporaryFolder>>
let api: KubeApi
let cache: ObjectCache<InferenceService>
let events: EventRecorder
let log: Recorder
let history: Omit<HistoryEntry, 'id' | 'at'>[]
let failure: Failure | undefined
let server: ServerState | undefined
let runtime: ServerRuntime
let narrator: Narrator

beforeEach(async () => {
  sim = await KubeSim.start()
  folder = await temporaryFolder()
  const file = await writeKubeconfig(join(folder.dir, 'kubeconfig'), sim.connection())
  api = new KubeApi(await PinnedContext.load({ file, env: {} }))
  cache = new ObjectCache()
  cache.upsert(parseInferenceService(await api.create(resources.inferenceServices, 'default', inferenceService)))
  failure = undefined
  server = undefined
  runtime = 'llama-server'
  narrator = begin()
})
afterEach(async () => {
  await events.flush()
  await sim[Symbol.asyncDispose]()
  await folder[Symbol.asyncDispose]()
})

/** On the monotonic clock, moved by hand. */
let time = 0

/** As after a start of the agent: nothing is remembered but what the cluster says. */
function begin(): Narrator {
  log = new Recorder()
  history = []
  events = new EventRecorder({ api, log, host: 'mac' })
  return new Narrator({
    log,
    history: { add: (entry) => void history.push(entry) },
    servers: { backOff: () => failure, get: () => server, runtimeOf: () => runtime },
    cluster: () => ({ cluster: { inferenceServices: cache }, events, status: new StatusWriter(api, cache) }),
    whyStopped: () => 'Suspended by spec.suspend.',
    now: () => time,
    random: () => 0.5,
  })
}

const eventShape = z.object({ reason: z.string(), message: z.string() })

interface Told {
  readonly log: string[]
  readonly events: string[]
  readonly history: string[]
}

async function told(): Promise<Told> {
  await events.flush()
  return {
    log: [...log.infos, ...log.warnings].map(({ message }) => message),
    events: sim.list('events').map((event) => {
      const { reason, message } = eventShape.parse(event)
      return `${reason}: ${message}`
    }),
    history: history.map(({ kind, message }) => `${kind}: ${message}`),
  }
}

const nothing: Told = { log: [], events: [], history: [] }

test.each<[what: string, transition: Transition, told: Partial<Told>]>([
  ['a claim', { kind: 'claimed', isTakenOver: false }, { events: ['Claimed: Claimed by this machine.'] }],
  [
    'a claim taken over',
    { kind: 'claimed', isTakenOver: true },
    { events: ['Claimed: Taken over from an agent that is gone.'] },
  ],
  ['a start', { kind: 'starting' }, { log: ['starting inference service'] }],
  [
    'a server that was started',
    { kind: 'started', runtime: 'mlx-lm', pid: 7, port: 5001, isFound: false },
    {
      log: ['started inference service'],
      events: ['Started: mlx-lm started with process id 7 on port 5001.'],
      history: ['started: The server was started as process 7.'],
    },
  ],
  [
    'a server that an earlier agent started and told of',
    { kind: 'started', runtime: 'mlx-lm', pid: 7, port: 5001, isFound: true },
    { history: ['started: The server was found running as process 7.'] },
  ],
  ['an answer', { kind: 'answered', port: 5001 }, { history: ['ready: The server answers on port 5001.'] }],
  [
    'a published address',
    { kind: 'published', address: '192.0.2.7', port: 5001 },
    { events: ['Ready: Serving at 192.0.2.7:5001.'] },
  ],
  [
    "a stop for want of replicas, in the words that LLMKube's guide looks for",
    { kind: 'scaledToZero' },
    { log: ['replicas=0; stopping process'] },
  ],
  [
    'a stop',
    { kind: 'stopped', why: 'Suspended.' },
    { events: ['Stopped: Suspended.'], history: ['stopped: Suspended.'] },
  ],
  [
    'a server that failed to start',
    { kind: 'failed', outOf: 'start', why: 'No.', hadProcess: true, isCounted: false },
    { events: ['StartFailed: No.'], history: ['crashed: No.'] },
  ],
  [
    'a server that ended while it served',
    { kind: 'failed', outOf: 'serving', why: 'No.', hadProcess: true, isCounted: false },
    { events: ['Stopped: No.'], history: ['crashed: No.'] },
  ],
  [
    'a failure that the Event of the crash loop counts',
    { kind: 'failed', outOf: 'start', why: 'No.', hadProcess: true, isCounted: true },
    { history: ['crashed: No.'] },
  ],
  [
    'a start without a process',
    { kind: 'failed', outOf: 'start', why: 'No.', hadProcess: false, isCounted: false },
    { events: ['StartFailed: No.'] },
  ],
  [
    'what could not be ended',
    { kind: 'leftBehind', message: 'It lives.' },
    { events: ['Stopped: It lives.'], history: ['stopped: It lives.'] },
  ],
  [
    'a download',
    { kind: 'download', note: { reason: 'Fetched', message: 'It is here.' } },
    { events: ['Fetched: It is here.'] },
  ],
  ['a failed download', { kind: 'fetchFailed', message: 'HTTP 404.' }, { events: ['StartFailed: HTTP 404.'] }],
  [
    'a refusal',
    { kind: 'refused', message: 'No.', isReportedBefore: false },
    { events: ['Refused: No.'], history: ['refused: No.'] },
  ],
  [
    'a refusal by a rule for servers, as LLMKube names it',
    { kind: 'refused', message: 'No.', rule: 'ExtraArgsRejected', isReportedBefore: false },
    { events: ['ExtraArgsRejected: No.'], history: ['refused: No.'] },
  ],
  [
    'a refusal that a failed download told',
    { kind: 'refused', message: 'No.', isReportedBefore: true },
    { history: ['refused: No.'] },
  ],
  ['a Model that is missing', { kind: 'modelMissing', message: 'No Model.' }, { events: ['Refused: No Model.'] }],
  [
    'a wait for memory',
    { kind: 'notStarted', reason: 'InsufficientMemory', message: 'Needs 24 GB.' },
    { events: ['InsufficientMemory: Needs 24 GB.'] },
  ],
  [
    'an eviction',
    { kind: 'evicted', why: 'It is idle.', message: 'Evicted: it is idle.', priority: 'low' },
    {
      log: ['evicting'],
      events: ['Evicted: Evicted: it is idle. (priority=low)'],
      history: ['evicted: Evicted to free memory: It is idle.'],
    },
  ],
  ['a return', { kind: 'broughtBack', why: 'Calm.' }, { log: ['brought back'], history: ['broughtBack: Calm.'] }],
  ['an eviction that is not', { kind: 'evictionSkipped', message: 'Alone.' }, { events: ['EvictionSkipped: Alone.'] }],
  [
    'a change of memory pressure',
    { kind: 'pressureChanged', isNormal: false, message: 'Short.' },
    { events: ['MemoryPressureLevelChanged: Short.'] },
  ],
  [
    'a Service that is led to no relay',
    { kind: 'notAdopted', message: 'It is not.' },
    { log: ['not adopted by a relay'], events: ['RelayNotAdopted: It is not.'] },
  ],
  ['idleness', { kind: 'idle', idleMinutes: 5 }, { log: ['idle inference service leaves memory'] }],
])('%s is told once by each way', async (_what, transition, expected) => {
  narrator.tell(key, transition)
  expect(await told()).toEqual({ ...nothing, ...expected })
})

const run = { since: 0, pid: 7, port: 5001 }
const exit = { kind: 'exited', since: 0, code: 1, signal: null, tail: [], outOf: 'serving', failures: 1 } as const

describe('a server', () => {
  test('is told of once for what it does, however often its state is looked at', async () => {
    const states: readonly ServerState[] = [
      { kind: 'starting', since: 0 },
      { kind: 'starting', ...run },
      { kind: 'loading', ...run },
      { kind: 'ready', ...run, readySince: 0, healthy: true },
      { kind: 'ready', ...run, readySince: 0, healthy: false },
      { kind: 'ready', ...run, readySince: 0, healthy: true },
      { ...exit, cause: 'itself', message: 'It crashed.', settled: false },
      { ...exit, cause: 'itself', message: 'It crashed.', settled: true },
      { kind: 'starting', ...run, pid: 8 },
      { kind: 'stopping', ...run, pid: 8, cause: 'stopped' },
      { ...exit, cause: 'stopped', message: 'It was stopped.', settled: true },
      { kind: 'failedToSpawn', since: 0, message: 'No binary.', failures: 1 },
    ]
    for (const state of states) narrator.serverChanged(key, state)
    const { events: written, history: kept } = await told()
    expect(written.toSorted()).toEqual([
      'StartFailed: No binary.',
      'Started: llama-server started with process id 7 on port 5001.',
      'Started: llama-server started with process id 8 on port 5001.',
      'Stopped: It crashed.',
      'Stopped: Suspended by spec.suspend.',
    ])
    expect(kept).toEqual([
      'started: The server was started as process 7.',
      'ready: The server answers on port 5001.',
      'crashed: It crashed.',
      'started: The server was started as process 8.',
      'stopped: Suspended by spec.suspend.',
      'crashed: No binary.',
    ])
  })

  test('is told of by the name of its runtime', async () => {
    runtime = 'mlx-lm'
    narrator.serverChanged(key, { kind: 'starting', ...run })
    expect((await told()).events).toEqual(['Started: mlx-lm started with process id 7 on port 5001.'])
  })

  test('is published in one Event for each process, and an earlier agent told of one that was found', async () => {
    const ready: ServerState = { kind: 'ready', ...run, readySince: 0, healthy: true }
    server = ready
    for (const _twice of [1, 2]) narrator.published(key, { address: '192.0.2.7', port: 5001 })
    expect((await told()).events).toEqual(['Ready: Serving at 192.0.2.7:5001.'])

    server = { ...ready, pid: 9 }
    narrator.serverChanged(key, { kind: 'starting', ...run, pid: 9, unasked: true })
    narrator.published(key, { address: '192.0.2.7', port: 5001 })
    expect((await told()).events).toHaveLength(1)
  })

  test('that fails again and again is one Event, which counts', async () => {
    const crashed: ServerState = { ...exit, cause: 'itself', message: 'It crashed.', settled: true }
    for (const failures of [1, 2, 3, 4]) {
      failure = { failures, retryAt: Date.UTC(2026, 0, 1) }
      narrator.serverChanged(key, crashed)
      await events.flush()
    }
    expect(Object.fromEntries(sim.list('events').map(({ reason, count }) => [reason, count]))).toEqual({
      Stopped: 1,
      CrashLooping: 4,
    })
    expect((await told()).history).toHaveLength(4)
  })

  test('that fails again and again is counted in the one Event whose making was done without an answer', async () => {
    sim.faults.add({ on: { verb: 'create', resource: 'events' }, fault: { kind: 'reset-after' } })
    for (const failures of [3, 4, 5]) {
      failure = { failures, retryAt: 0 }
      narrator.serverChanged(key, { kind: 'failedToSpawn', since: 0, message: 'No binary.', failures })
      await events.flush()
    }
    expect(sim.list('events').map(({ reason, count }) => [reason, count])).toEqual([['CrashLooping', 5]])
  })

  test('that is stopped as the agent ends is in the history, and no Event', async () => {
    narrator.leave()
    narrator.serverChanged(key, { kind: 'stopping', ...run, cause: 'stopped' })
    narrator.serverChanged(key, { ...exit, cause: 'stopped', message: 'Gone.', settled: true })
    expect(await told()).toEqual({ ...nothing, history: ['stopped: Suspended by spec.suspend.'] })
  })
})

const observed: Observation = {
  now: 0,
  desired: { kind: 'serve', runtime: 'llama-server', runtimeFrom: 'spec.runtime', source: 's', digest: 'd' },
  address: { ip: '192.0.2.7', message: '' },
  fetch: { kind: 'none' },
  server: { kind: 'none' },
  instead: undefined,
  obstacle: undefined,
  unloaded: undefined,
  stopReason: '',
  publication: {
    claim: 'ours',
    message: '',
    retryAt: undefined,
    service: 'ours',
    serviceMessage: '',
    shown: undefined,
    complete: true,
    present: true,
  },
  restartAsked: false,
  paused: false,
  silence: undefined,
  clusterRetry: undefined,
}
const rests = (state: Plan['state'], reason: Plan['reason'], message: string): Plan => ({
  step: { do: 'rest' },
  state,
  reason,
  message,
  retryAt: undefined,
  forget: false,
})

/** As a pass that rests does; the answer is in the cache. */
async function report(plan: Plan, more: Partial<Observation> = {}): Promise<number | undefined> {
  const service = cache.get('default', 'tiny')
  if (!service) throw new Error('The service is gone.')
  narrator.planned(key, plan)
  const inputs = {
    plan,
    observed: { ...observed, ...more },
    service,
    unloadReason: undefined,
    pressure: undefined,
    runtime: 'llama-server' as const,
    now: 0,
  }
  return narrator.report(key, inputs)
}

const condition = () =>
  cache
    .get('default', 'tiny')
    ?.status.conditions.filter(({ type }) => type === 'MetalAgent')
    .map(({ status, reason, message }) => `${status} ${reason}: ${message}`)

const statusWrites = () => sim.requests.count({ resource: 'inferenceservices/status' })

const writesOf = ({ reason }: Plan): number => (reason === 'InsufficientMemory' ? 2 : 1)

describe('a state', () => {
  test.each<[Plan, Partial<Told>, string]>([
    [
      rests('ready', 'Serving', 'Serving at A.'),
      { log: ['state'] },
      'True Serving: Serving at A. Served by llama-server, chosen by spec.runtime.',
    ],
    [
      rests('ready', 'ClusterDisagrees', 'B.'),
      { log: ['state'] },
      'True ClusterDisagrees: B. Served by llama-server, chosen by spec.runtime.',
    ],
    [
      rests('refused', 'Refused', 'Wrong format.'),
      { log: ['state'], events: ['Refused: Wrong format.'], history: ['refused: Wrong format.'] },
      'False Refused: Wrong format.',
    ],
    [
      rests('waiting', 'ModelMissing', 'No Model.'),
      { log: ['state'], events: ['Refused: No Model.'] },
      'False ModelMissing: No Model.',
    ],
    [rests('waiting', 'InsufficientMemory', 'Full.'), { log: ['state'] }, 'False InsufficientMemory: Full.'],
    [rests('starting', 'Starting', 'Loading.'), {}, 'False Starting: Loading.'],
  ])('$reason is one line, one condition, and what a person is called by', async (plan, expected, said) => {
    for (const _look of [1, 2, 3]) await report(plan)
    expect(await told()).toEqual({ ...nothing, ...expected })
    expect(condition()).toEqual([said])
    // One for the condition, and one where LLMKube has a field for the reason as well.
    const writes = statusWrites()
    await report(plan)
    expect([writes, statusWrites()]).toEqual([writesOf(plan), writesOf(plan)])
  })

  test('of a refusal is not told again after a restart of the agent', async () => {
    await report(rests('refused', 'Refused', 'Wrong format.'))
    await events.flush()
    narrator = begin()
    await report(rests('refused', 'Refused', 'Wrong format.'))
    expect(history).toEqual([])
    expect((await told()).events).toHaveLength(1)
  })

  test('of a refusal is told once also while the condition cannot be written', async () => {
    const fault = { kind: 'status', code: 503, reason: 'ServiceUnavailable', message: 'no' } as const
    sim.faults.add({ on: { resource: 'inferenceservices/status' }, times: Infinity, fault })
    for (const _look of [1, 2]) {
      await report(rests('refused', 'Refused', 'Wrong format.'))
      narrator.retryReports()
    }
    const { events: written, history: kept } = await told()
    expect([written, kept]).toEqual([['Refused: Wrong format.'], ['refused: Wrong format.']])
  })

  test('of requests that finish is written once, however many are left', async () => {
    for (const left of ['2 requests finishing.', '1 request finishing.']) {
      await report(rests('stopping', 'Stopping', `Suspended. ${left}`), { drainFigures: left })
    }
    expect(condition()).toEqual(['False Stopping: Suspended. 2 requests finishing.'])
    await report(rests('stopping', 'Stopping', 'Deleted. 1 request finishing.'), {
      drainFigures: '1 request finishing.',
    })
    expect(condition()).toEqual(['False Stopping: Deleted. 1 request finishing.'])
  })

  test('of a service that nobody holds is written again for news of our own, and not since another agent says otherwise', async () => {
    const free = { publication: { ...observed.publication, claim: 'released' } } as const
    const [one, other] = [begin(), begin()]
    const say = async (agent: Narrator, plan: Plan): Promise<void> => {
      narrator = agent
      await report(plan, free)
    }
    for (const _look of [1, 2, 3]) {
      await say(one, rests('waiting', 'Paused', 'Paused.'))
      await say(other, rests('stopped', 'Held', 'Evicted.'))
    }
    expect([statusWrites(), condition()]).toEqual([2, ['False Held: Evicted.']])
    await say(one, rests('stopped', 'Held', 'Held by hand.'))
    expect(condition()).toEqual(['False Held: Held by hand.'])
  })

  test('of a service that nobody holds is said again when another agent had its turn and said otherwise', async () => {
    const as = (claim: 'released' | 'foreign') => ({ publication: { ...observed.publication, claim } })
    const heldHere = rests('stopped', 'Held', 'Held by hand.')
    const [one, other] = [begin(), begin()]
    narrator = one
    await report(heldHere, as('released'))
    await report(heldHere, as('foreign'))
    narrator = other
    await report(rests('stopped', 'Stopped', 'The other agent was stopped.'))
    narrator = one
    await report(heldHere, as('foreign'))
    expect(condition()).toEqual(['False Stopped: The other agent was stopped.'])
    await report(heldHere, as('released'))
    expect(condition()).toEqual(['False Held: Held by hand.'])
  })

  test('that was written on an old version of the object is written again later and later, and nothing is logged', async () => {
    const fault = { kind: 'status', code: 409, reason: 'Conflict', message: 'newer' } as const
    sim.faults.add({ on: { resource: 'inferenceservices/status' }, times: 3, fault })
    const waits: number[] = []
    for (let look = 0; look < 20 && condition()?.length === 0; look += 1) {
      const again = await report(rests('ready', 'Serving', 'Serving.'))
      if (again === undefined) continue
      waits.push(again - time)
      time = again
    }
    expect(waits).toEqual([250, 500, 1_000])
    expect((await told()).log).toEqual(['state'])
    expect(condition()).toEqual(['True Serving: Serving. Served by llama-server, chosen by spec.runtime.'])
  })

  test('that cannot be written after a conflict is told once all the same', async () => {
    const on = { resource: 'inferenceservices/status' }
    sim.faults.add({ on, times: 1, fault: { kind: 'status', code: 409, reason: 'Conflict', message: 'newer' } })
    sim.faults.add({ on, times: Infinity, fault: { kind: 'status', code: 403, reason: 'Forbidden', message: 'no' } })
    for (const _look of [1, 2, 3]) time = (await report(rests('ready', 'Serving', 'Serving.'))) ?? time
    expect((await told()).log).toEqual(['state', 'status not written'])
  })

  test('that cannot be written is tried again later, and told once', async () => {
    const fault = { kind: 'status', code: 503, reason: 'ServiceUnavailable', message: 'no' } as const
    sim.faults.add({ on: { resource: 'inferenceservices/status' }, times: Infinity, fault })
    for (const _look of [1, 2]) await report(rests('ready', 'Serving', 'Serving.'))
    expect((await told()).log).toEqual(['state', 'status not written'])
    expect(condition()).toEqual([])
  })
})

test('a server that hangs although it was killed is told once, however often it is killed', async () => {
  const hangs: ServerState = { kind: 'stopping', since: 0, cause: 'stopped', pid: 7, hangs: 'Process 7 did not end.' }
  for (const _again of [1, 2]) narrator.serverChanged(key, hangs)
  expect(await told()).toEqual({
    ...nothing,
    events: ['Stopped: Process 7 did not end.'],
    history: ['stopped: Process 7 did not end.'],
  })
})

test('what two servers in a row leave behind is told for each, though it is the same', async () => {
  const left = { ...exit, cause: 'itself', message: 'It crashed.', left: 'Port 5001 is taken.' } as const
  for (const settled of [false, true, false, true]) narrator.serverChanged(key, { ...left, settled })
  expect((await told()).events.filter((text) => text === 'Stopped: Port 5001 is taken.')).toHaveLength(2)
})

test('a wait for memory is told once for its reason, and again after it was granted', async () => {
  for (const _look of [1, 2]) narrator.notStarted(key, 'InsufficientMemory', 'Needs 24 GB.')
  narrator.notStarted(key, 'MemoryPressure', 'Critical.')
  narrator.mayStart(key)
  narrator.notStarted(key, 'MemoryPressure', 'Critical again.')
  expect((await told()).events.toSorted()).toEqual([
    'InsufficientMemory: Needs 24 GB.',
    'RespawnBlocked: Critical again.',
    'RespawnBlocked: Critical.',
  ])
})

test('an object that is made again is told of anew, what runs for it is not', async () => {
  narrator.serverChanged(key, { kind: 'starting', ...run })
  narrator.notStarted(key, 'InsufficientMemory', 'Needs 24 GB.')
  await events.flush()
  cache.remove('default', 'tiny')
  sim.delete({ resource: 'inferenceservices', name: 'tiny' })
  cache.upsert(parseInferenceService(await api.create(resources.inferenceServices, 'default', inferenceService)))
  narrator.serverChanged(key, { kind: 'loading', ...run })
  narrator.notStarted(key, 'InsufficientMemory', 'Needs 24 GB.')
  expect((await told()).events.map((text) => text.split(':')[0]).toSorted()).toEqual([
    'InsufficientMemory',
    'InsufficientMemory',
    'Started',
  ])
})
