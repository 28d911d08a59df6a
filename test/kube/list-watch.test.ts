import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { KubeApi } from '../../src/agent-core/kube/kube-api.ts'
import { ListWatch, type ListWatchState } from '../../src/agent-core/kube/list-watch.ts'
import { ObjectCache } from '../../src/agent-core/kube/object-cache.ts'
import { PinnedContext } from '../../src/agent-core/kube/pinned-context.ts'
import { parseModel, resources, type Model } from '../../src/agent-core/kube/resources.ts'
import { eventually } from '../support/eventually.ts'
import type { Fault } from '../support/kube-sim/faults.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { silentLog } from '../support/silent-log.ts'

let folder: string
let sim: KubeSim
let context: PinnedContext
let stops: (() => Promise<void>)[]

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'metalbar-list-watch-'))
  sim = await KubeSim.start({ bookmarkEveryMs: 50 })
  const file = join(folder, 'kubeconfig')
  await writeFile(file, sim.kubeconfig())
  context = await PinnedContext.load({ file, env: {} })
  stops = []
})

afterEach(async () => {
  for (const stop of stops) await stop()
  await sim[Symbol.asyncDispose]()
  await rm(folder, { recursive: true, force: true })
})

test('what is there is listed page by page, and what comes, changes and goes is followed', async () => {
  for (let index = 0; index < 1_200; index += 1) createModel(`m-${index}`)
  const { cache } = watchModels()
  await eventually(() => cache.size === 1_200)
  const pages = sim.requests.count({ verb: 'list', resource: 'models' })

  createModel('new')
  sim.patch({ resource: 'models', name: 'm-1' }, { spec: { source: '/changed.gguf' } })
  sim.delete({ resource: 'models', name: 'm-0' })
  await eventually(() => cache.get('default', 'm-0') === undefined)
  expect([pages, cache.size, sourceOf(cache, 'm-1'), sourceOf(cache, 'new')]).toEqual([
    5,
    1_200,
    '/changed.gguf',
    '/new.gguf',
  ])
})

const survivable: readonly (readonly [string, Fault])[] = [
  ['closed', { kind: 'close' }],
  ['reset', { kind: 'reset-watch' }],
  ['answered with 500', { kind: 'status', code: 500 }],
  ['answered with 410', { kind: 'status', code: 410, reason: 'Expired' }],
  ['ended by an ERROR event with 410', { kind: 'error-event', code: 410 }],
  ['ended by an ERROR event with 500', { kind: 'error-event', code: 500 }],
  ['cut in the middle of a line', { kind: 'half-line' }],
  ['answered with 429', { kind: 'status', code: 429, retryAfterSeconds: 0 }],
]

test.each(survivable)('a watch that is %s loses no change', async (_how, fault) => {
  createModel('first')
  const { cache, gone } = watchModels()
  await eventually(() => sim.watchCount({ resource: 'models' }) === 1)
  sim.faults.add({ on: { verb: 'watch', resource: 'models' }, times: 2, fault })
  sim.breakWatches('close', { resource: 'models' })
  createModel('second')
  await eventually(() => cache.get('default', 'second'))
  expect([cache.size, gone]).toEqual([2, []])
})

test('a watch from a version that the server has forgotten is followed by a list', async () => {
  createModel('first')
  const { cache } = watchModels()
  await eventually(() => sim.watchCount({ resource: 'models' }) === 1)
  sim.breakWatches('close', { resource: 'models' })
  createModel('second')
  sim.compact()
  await eventually(() => cache.get('default', 'second'))
})

test('a forgotten version is followed by a list at once also after failures, and forgotten again only later', async () => {
  createModel('first')
  const { states } = watchModels({ clock: { now: 0 } })
  await eventually(() => sim.watchCount({ resource: 'models' }) === 1)
  const on = { verb: 'watch', resource: 'models' } as const
  sim.faults.add({ on, times: 2, fault: { kind: 'status', code: 500 } })
  sim.faults.add({ on, times: 2, fault: { kind: 'status', code: 410, reason: 'Expired' } })
  sim.breakWatches('close', { resource: 'models' })
  const waits = () => states.flatMap(({ retryAt }) => (retryAt === undefined ? [] : [retryAt]))
  await eventually(() => waits().length === 4 && states.at(-1)?.state === 'live')
  expect(waits()).toEqual([20, 40, 0, 160])
})

test('a silent connection is given up and what it did not bring is found', async () => {
  const { cache, states } = watchModels({ silenceMs: 300 })
  await eventually(() => sim.watchCount({ resource: 'models' }) === 1)
  sim.breakWatches('silence', { resource: 'models' })
  createModel('unheard')
  await eventually(() => cache.get('default', 'unheard'))
  expect(states.map(({ state }) => state)).toContain('stale')
})

test('a lost event is healed by the next list', async () => {
  createModel('first')
  const { cache, listWatch } = watchModels()
  await eventually(() => cache.synced)
  sim.faults.add({ on: { verb: 'watch', resource: 'models' }, fault: { kind: 'lose' } })
  sim.breakWatches('close', { resource: 'models' })
  await eventually(() => sim.watchCount({ resource: 'models' }) === 1)
  createModel('lost')
  createModel('seen')
  await eventually(() => cache.get('default', 'seen'))
  const before = cache.get('default', 'lost')
  listWatch.resync()
  await eventually(() => cache.get('default', 'lost'))
  expect(before).toBeUndefined()
})

test('an outage deletes nothing, is called stale, and ends by itself', async () => {
  createModel('kept')
  const { cache, states, gone, listWatch } = watchModels()
  await eventually(() => cache.size === 1 && listWatch.state().state === 'live')
  await sim.stop()
  await eventually(() => listWatch.state().state === 'stale' && listWatch.state().consecutiveFailures >= 3)
  const during = [cache.size, gone.length]
  sim.delete({ resource: 'models', name: 'kept' })
  createModel('after')
  await sim.start()
  await eventually(() => cache.get('default', 'after'))
  await eventually(() => listWatch.state().state === 'live')
  expect([during, gone, states.map(({ state }) => state).filter(isFirstOfRun)]).toEqual([
    [1, 0],
    ['default/kept'],
    ['live', 'stale', 'live'],
  ])
})

test('a server that was never reached is offline, with its words and the time of the next attempt', async () => {
  await sim.stop()
  const { listWatch } = watchModels()
  const state = await eventually(() => listWatch.state().state === 'offline' && listWatch.state())
  expect([
    state.message.includes('ECONNREFUSED'),
    state.message.includes(sim.url),
    state.retryAt !== undefined,
  ]).toEqual([true, true, true])
})

test('an object that was deleted and made again while nobody looked is a deletion and an addition', async () => {
  createModel('twin')
  const { cache, changes } = watchModels()
  await eventually(() => cache.size === 1)
  await sim.stop()
  sim.delete({ resource: 'models', name: 'twin' })
  createModel('twin')
  const count = changes.length
  await sim.start()
  await eventually(() => changes.length > count)
  expect(changes.slice(count)).toEqual(['default/twin gone', 'default/twin here'])
})

test('the end of an earlier object, which arrives after the answer to its re-creation, takes nothing away', async () => {
  createModel('twin')
  const { cache, changes } = watchModels()
  await eventually(() => cache.size === 1 && sim.watchCount({ resource: 'models' }) === 1)
  const count = changes.length
  sim.delete({ resource: 'models', name: 'twin' })
  createModel('twin')
  const again = parseModel(sim.get({ resource: 'models', name: 'twin' }))
  // As a writer does with the answer to its request: the watch still has to tell of both.
  cache.assume(again)
  createModel('later')
  await eventually(() => cache.get('default', 'later'))
  expect([changes.slice(count), cache.get('default', 'twin')?.metadata.uid]).toEqual([
    ['default/twin gone', 'default/twin here', 'default/later here'],
    again.metadata.uid,
  ])
})

test('an object whose metadata cannot be read is left out and the rest is kept', async () => {
  createModel('good')
  const { cache } = watchModels({
    parse: (raw) => {
      const model = parseModel(raw)
      if (model.metadata.name === 'bad') throw new Error('unreadable')
      return model
    },
  })
  await eventually(() => cache.size === 1)
  createModel('bad')
  createModel('better')
  await eventually(() => cache.get('default', 'better'))
  expect(cache.get('default', 'bad')).toBeUndefined()
})

test('large objects are read in pages that fit into memory', async () => {
  for (let index = 0; index < 60; index += 1) createModel(`large-${index}`, { 'example.com/blob': 'x'.repeat(200_000) })
  const { cache } = watchModels()
  await eventually(() => cache.size === 60)
  expect(sim.requests.count({ verb: 'list', resource: 'models' })).toBeGreaterThan(3)
})

test('a list that never ends is given up with a sentence, and what was known before stays', async () => {
  for (let index = 0; index < 300; index += 1) createModel(`m-${index}`)
  const { cache, listWatch, gone } = watchModels()
  await eventually(() => cache.size === 300)
  const endless = sim.faults.add({
    on: { verb: 'list', resource: 'models' },
    times: Infinity,
    fault: { kind: 'endless-list' },
  })
  listWatch.resync()
  const { state, message } = await eventually(() => listWatch.state().state !== 'live' && listWatch.state())
  expect([state, message]).toEqual([
    'stale',
    'The models of the cluster cannot be read (the list has more than 20000 objects, or no end); running models keep serving from the last known state. Delete objects there that nobody needs, or watch one namespace with --namespace.',
  ])
  expect([cache.size, gone]).toEqual([300, []])
  endless.remove()
  createModel('after')
  await eventually(() => cache.get('default', 'after'))
})

test('a watch that is cut after it has lived is opened again without ever longer waits', async () => {
  const clock = { now: 0 }
  const { listWatch, states } = watchModels({ clock })
  const waits: number[] = []
  for (let cut = 1; cut <= 5; cut += 1) {
    await eventually(() => listWatch.state().state === 'live' && sim.watchCount({ resource: 'models' }) === 1)
    clock.now += 60_000
    const seen = states.length
    sim.breakWatches('reset', { resource: 'models' })
    const { retryAt = 0 } = await eventually(() => states.slice(seen).find(({ state }) => state === 'stale'))
    waits.push(retryAt - clock.now)
  }
  expect(new Set(waits)).toEqual(new Set([10]))
})

test('a server that answers nothing is asked ever more seldom', async () => {
  const fault = { kind: 'status', code: 500 } as const
  sim.faults.add({ on: { resource: 'models' }, times: Infinity, fault })
  const { states } = watchModels({ clock: { now: 0 } })
  const waits = () => states.flatMap(({ retryAt }) => (retryAt === undefined ? [] : [retryAt]))
  await eventually(() => waits().length >= 4)
  expect(waits().slice(0, 4)).toEqual([10, 20, 40, 80])
})

test('a server that asks for time is given it', async () => {
  sim.faults.add({
    on: { verb: 'list', resource: 'models' },
    times: Infinity,
    fault: { kind: 'status', code: 429, retryAfterSeconds: 7 },
  })
  const { listWatch } = watchModels()
  const { retryAt } = await eventually(() => listWatch.state().retryAt !== undefined && listWatch.state())
  expect((retryAt ?? 0) - Date.now()).toBeGreaterThan(6_000)
})

function watchModels(
  options: {
    as?: PinnedContext
    silenceMs?: number
    parse?: (raw: unknown) => Model
    /** Moved by hand. */
    clock?: { readonly now: number }
  } = {},
): {
  cache: ObjectCache<Model>
  listWatch: ListWatch<Model>
  states: ListWatchState[]
  gone: string[]
  changes: string[]
} {
  const cache = new ObjectCache<Model>()
  const states: ListWatchState[] = []
  const changes: string[] = []
  const gone: string[] = []
  const { clock } = options
  cache.onChange(({ key, before, after }) => {
    if (!after) gone.push(key)
    if (!after) changes.push(`${key} gone`)
    else if (!before) changes.push(`${key} here`)
  })
  const listWatch = new ListWatch({
    api: new KubeApi(options.as ?? context),
    resource: resources.models,
    namespace: 'default',
    parse: options.parse ?? parseModel,
    cache,
    log: silentLog,
    onState: (state) => states.push(state),
    ...(clock && { now: () => clock.now, monotonicNow: () => clock.now }),
    ...(options.silenceMs !== undefined && { silenceMs: options.silenceMs }),
    // The shortest back-off there is: what is tested here is what happens, not how long it takes.
    random: () => 0.02,
  })
  stops.push(() => listWatch.stop())
  listWatch.start()
  return { cache, listWatch, states, gone, changes }
}

function createModel(name: string, annotations: Readonly<Record<string, string>> = {}): void {
  sim.create({
    apiVersion: 'inference.llmkube.dev/v1alpha1',
    kind: 'Model',
    metadata: { name, namespace: 'default', annotations },
    spec: { source: `/${name}.gguf`, hardware: { accelerator: 'metal' } },
  })
}

function sourceOf(cache: ObjectCache<Model>, name: string): string | undefined {
  const model = cache.get('default', name)
  return model?.spec.ok === true ? model.spec.value.source : undefined
}

const isFirstOfRun = <T>(value: T, index: number, all: readonly T[]): boolean => value !== all[index - 1]
