import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { parseInferenceService, type InferenceServiceSpec } from '../../../src/agent-core/kube/resources.ts'
import { Memory } from '../../../src/agent-core/memory/memory.ts'
import { usualIntervalMs } from '../../../src/agent-core/memory/watchdog.ts'
import { Admission } from '../../../src/agent-core/reconcile/admission.ts'
import type { DesiredServer } from '../../../src/agent-core/reconcile/reading.ts'
import type { Need } from '../../../src/agent-core/reconcile/sizing.ts'
import { eventually } from '../../support/eventually.ts'
import { silentLog } from '../../support/silent-log.ts'
import { StatedMemory } from '../../support/stated-memory.ts'

const gigabyte = 1e9

let machine: StatedMemory
let memory: Memory
let admission: Admission
let enqueued: Set<string>
/** Why each was not started, with the key. */
let told: string[]

beforeEach(async () => {
  machine = new StatedMemory()
  enqueued = new Set()
  told = []
  memory = new Memory({
    platform: machine.platform,
    settings: () => ({ fraction: 0, budgetBytes: 30 * gigabyte, enforcement: 'enforce' }),
    servers: () => [],
    log: silentLog,
  })
  await memory.start()
  admission = new Admission({
    memory,
    narrator: {
      notStarted: (key, reason) => void told.push(`${reason} ${key}`),
      mayStart: () => undefined,
    },
    log: silentLog,
    isProtected: () => false,
    enqueue: (key) => void enqueued.add(key),
    onChange: () => undefined,
    now: () => 0,
  })
})
afterEach(async () => {
  vi.useRealTimers()
  admission[Symbol.dispose]()
  await memory[Symbol.asyncDispose]()
})

const uidOf = (key: string): string => `uid of ${key}`

function desiredServer(key: string, spec: Partial<InferenceServiceSpec> = {}, digest = 'd1'): DesiredServer {
  const service = parseInferenceService({
    metadata: { name: key.slice(3), namespace: 'ns', uid: uidOf(key), resourceVersion: '1' },
    spec: { modelRef: 'm', ...spec },
  })
  if (!service.spec.ok) throw new Error(service.spec.message)
  const model = { source: 's', format: 'gguf', files: [], refreshPolicy: 'IfNotPresent' } as const
  return {
    service,
    spec: service.spec.value,
    model: { ...model, files: [] },
    modelStatus: { phase: '' },
    runtime: 'llama-server',
    digest,
  }
}

const needing = (gigabytes: number): Need => ({
  of: 'd1',
  estimate: {
    total: gigabytes * gigabyte,
    items: { weights: 0, kv: 0, compute: 0, promptCache: 0, mmproj: 0, overhead: 0 },
    notes: [],
  },
  whyUnknown: undefined,
  changeable: {},
})

function starts(key: string, gigabytes: number, spec: Partial<InferenceServiceSpec> = {}): boolean {
  return admission.admit(key, desiredServer(key, spec), needing(gigabytes))
}

const ends = (key: string): void => memory.gone(key)

const view = (key: string, spec: Partial<InferenceServiceSpec> = {}, digest = 'd1') =>
  admission.view(key, desiredServer(key, spec, digest))

describe('a start', () => {
  test('is admitted while the sum of all fits, and refused with a reason and a place after that', () => {
    expect([starts('ns/a', 20), starts('ns/b', 20)]).toEqual([true, false])
    expect(view('ns/b').noMemory?.reason).toBe('InsufficientMemory')
    expect(view('ns/b').noMemory?.message).toMatch(
      /^Needs 20\.0 GB, 10\.0 GB left in the budget of 30\.0 GB \(1st waiting\)/,
    )
    expect(admission.report('ns/b').place).toBe(1)
    expect(told).toEqual(['InsufficientMemory ns/b'])
  })

  test('that was refused says nothing about another wish', () => {
    starts('ns/a', 20)
    starts('ns/b', 20)
    expect(view('ns/b', {}, 'd2').noMemory).toBeUndefined()
    expect(view('ns/b', { priority: 'high' }).noMemory).toBeUndefined()
    expect(admission.view('ns/b', undefined).noMemory).toBeUndefined()
  })

  test('is asked for again when memory is freed', () => {
    starts('ns/a', 20)
    starts('ns/b', 20)
    enqueued.clear()
    ends('ns/a')
    expect([...enqueued]).toContain('ns/b')
    expect(view('ns/b').noMemory).toBeUndefined()
    expect(starts('ns/b', 20)).toBe(true)
  })

  test('whose queue position changed is looked at again', () => {
    starts('ns/a', 20)
    for (const key of ['ns/b', 'ns/c']) starts(key, 25)
    expect(admission.report('ns/c').place).toBe(2)
    enqueued.clear()
    admission.leaveQueue('ns/b')
    expect([...enqueued]).toEqual(['ns/c'])
    starts('ns/c', 25)
    expect(admission.report('ns/c').place).toBe(1)
  })

  test('has no place while nobody knows how much memory is available, and is looked at again for that', async () => {
    starts('ns/a', 20)
    starts('ns/b', 25)
    enqueued.clear()
    machine.isUnknown = true
    await memory.look()
    expect([...enqueued]).toEqual(['ns/b'])
    starts('ns/b', 25)
    expect([admission.report('ns/b').place, view('ns/b').noMemory?.reason]).toEqual([undefined, 'MemoryCheckFailed'])
  })

  test('that waits has memory looked at also where that is never done by the clock', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    machine.isUnknown = true
    await memory.look()
    expect(starts('ns/a', 1)).toBe(false)
    machine.isUnknown = false
    enqueued.clear()
    await vi.advanceTimersByTimeAsync(usualIntervalMs)
    await eventually(() => enqueued.has('ns/a'))
    expect(starts('ns/a', 1)).toBe(true)
  })

  test('is refused while pressure is critical, and the settings are asked again when they change', async () => {
    machine.kernelLevel = 'critical'
    await memory.look()
    expect(starts('ns/a', 1)).toBe(false)
    expect(view('ns/a').noMemory?.reason).toBe('MemoryPressure')
    enqueued.clear()
    admission.rulesChanged()
    expect([...enqueued]).toEqual(['ns/a'])
    expect(view('ns/a').noMemory).toBeUndefined()
  })

  test('of a service that is forgotten leaves the queue', () => {
    starts('ns/a', 20)
    for (const key of ['ns/b', 'ns/c']) starts(key, 25)
    admission.forget('ns/b')
    expect([...memory.book.places.keys()]).toEqual(['ns/c'])
  })

  test('of a cluster that was left has no place among those of the next', () => {
    starts('ns/a', 20)
    starts('ns/b', 25)
    admission[Symbol.dispose]()
    expect([memory.book.places.size, memory.book.held().map(({ key }) => key)]).toEqual([0, ['ns/a']])
  })
})

describe('a change', () => {
  const compare = (key: string, gigabytes: number) => admission.compare(key, desiredServer(key), needing(gigabytes))

  test.each<[what: string, gigabytes: number, refusal: RegExp | undefined]>([
    ['fits in the place of what serves', 20, undefined],
    ['fits nowhere, and says why', 40, /so the previous one keeps serving: Needs 40\.0 GB, more than the whole budget/],
  ])('%s', async (_what, gigabytes, refusal) => {
    starts('ns/a', 20)
    await compare('ns/a', gigabytes)
    expect(view('ns/a').instead).toEqual({ refusal: refusal && (expect.stringMatching(refusal) as string) })
  })

  test('that nobody compared has no answer, nor has one that was compared for another wish', async () => {
    starts('ns/a', 20)
    expect(view('ns/a').instead).toBeUndefined()
    await compare('ns/a', 10)
    expect(view('ns/a', {}, 'd2').instead).toBeUndefined()
  })

  test('is compared again once memory shows that the answer is another one', async () => {
    starts('ns/a', 20)
    await compare('ns/a', 20)
    enqueued.clear()
    await memory.look()
    expect([view('ns/a').instead, [...enqueued]]).toEqual([{ refusal: undefined }, []])
    machine.kernelLevel = 'critical'
    await memory.look()
    expect([view('ns/a').instead, [...enqueued]]).toEqual([undefined, ['ns/a']])
  })

  test('that fits nowhere is compared again when the server that had the memory is gone', async () => {
    for (const key of ['ns/a', 'ns/b']) starts(key, 12)
    await compare('ns/a', 20)
    expect(view('ns/a').instead?.refusal).toBeDefined()
    enqueued.clear()
    memory.gone('ns/b')
    await memory.look()
    expect([view('ns/a').instead, [...enqueued]]).toEqual([undefined, ['ns/a']])
  })
})

test('what a server needs is worked out once for each server', async () => {
  let sizings = 0
  const sizeUp = (of: string) => () => {
    sizings += 1
    return Promise.resolve({ ...needing(1), of })
  }
  for (const server of ['one', 'one', 'other']) await admission.need('ns/a', server, sizeUp(server))
  expect([sizings, admission.report('ns/a').need?.of]).toEqual([2, 'other'])
})
