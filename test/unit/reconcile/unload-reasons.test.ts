import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { evictedOnceMore } from '../../../src/agent-core/memory/eviction.ts'
import { UnloadReasons, holdOf, type UnloadReason } from '../../../src/agent-core/reconcile/unload-reasons.ts'
import { StateFileError } from '../../../src/agent-core/state/state-file.ts'
import { eventually } from '../../support/eventually.ts'
import { Recorder } from '../../support/running-agent.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const since = '2026-11-22T00:00:00.000Z'
const target = (name: string) => ({ uid: `uid of ${name}`, namespace: 'ns', name, cluster: 'https://c' })
const held: UnloadReason & { kind: 'held' } = { kind: 'held', cause: 'stopped', since, message: 'Stopped here.' }
const evicted: UnloadReason = { kind: 'evicted', since, message: 'Evicted.' }
const idle: UnloadReason = { kind: 'idle', since, message: 'Idle.' }

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let log: Recorder

const open = () => UnloadReasons.open({ stateDir: folder.dir, log })
const file = () => join(folder.dir, 'absences.json')

beforeEach(async () => {
  folder = await temporaryFolder()
  log = new Recorder()
})
afterEach(() => folder[Symbol.asyncDispose]())

test('each unload reason is there again after a restart of the agent', async () => {
  const before = await open()
  await before.hold(target('held'), held)
  before.unload(target('evicted'), evicted)
  before.unload(target('idle'), idle)
  before.remember('uid of evicted', { evictions: 2, evictedAt: 7 })
  await before.protect(target('idle'), true)
  await before.pause(since)
  await before.flush()

  const after = await open()
  const names = ['held', 'evicted', 'idle']
  expect(names.map((name) => after.of(target(name).uid)?.kind)).toEqual(['held', 'evicted', 'idle'])
  expect([...new Set(after.placesIn('https://c').map(({ name }) => name))]).toEqual(['held', 'evicted', 'idle'])
  expect(after.placesIn('https://other')).toEqual([])
  expect([after.eviction('uid of evicted')?.evictions, after.isProtected('uid of idle'), after.pausedSince]).toEqual([
    2,
    true,
    since,
  ])
})

test('neither memory pressure nor idleness takes the place of what a person holds', async () => {
  const unloadReasons = await open()
  await unloadReasons.hold(target('tiny'), held)
  for (const reason of [evicted, idle]) unloadReasons.unload(target('tiny'), reason)
  expect(unloadReasons.of('uid of tiny')).toEqual(held)
})

test('a service that a person brought back and that stayed for long is evicted as if for the first time', async () => {
  const unloadReasons = await open()
  const hourMs = 3_600_000
  unloadReasons.remember('uid of tiny', evictedOnceMore(undefined, 0))
  unloadReasons.unload(target('tiny'), evicted)
  await unloadReasons.bringBack('uid of tiny', hourMs)
  const soon = evictedOnceMore(unloadReasons.eviction('uid of tiny'), 1.5 * hourMs)
  const late = evictedOnceMore(unloadReasons.eviction('uid of tiny'), 20 * hourMs)
  expect([soon.evictions, late.evictions, unloadReasons.of('uid of tiny')]).toEqual([2, 1, undefined])
})

test('a broken file is set aside and told, and nothing is held back', async () => {
  await writeFile(file(), 'no JSON')
  const unloadReasons = await open()
  expect(unloadReasons.notices).toEqual([expect.stringContaining('was set aside')])
  expect(unloadReasons.placesIn('https://c')).toEqual([])
})

test('what memory needs takes effect at once where the disk takes nothing, and is written when it does', async () => {
  const unloadReasons = await open()
  await mkdir(file())
  unloadReasons.unload(target('evicted'), evicted)
  unloadReasons.remember('uid of evicted', { evictions: 1, evictedAt: 7 })
  await unloadReasons.flush()
  expect([unloadReasons.of('uid of evicted'), unloadReasons.eviction('uid of evicted')?.evictions]).toEqual([
    evicted,
    1,
  ])
  expect(log.warnings.map(({ message }) => message)).toEqual(['unload reasons not written'])

  await rm(file(), { recursive: true })
  unloadReasons.unload(target('idle'), idle)
  await unloadReasons.flush()
  expect((await open()).placesIn('https://c').map(({ name }) => name)).toEqual(['evicted', 'idle'])
})

test('what the disk did not take is written when the agent stops, if it takes it by then', async () => {
  const unloadReasons = await open()
  await mkdir(file())
  unloadReasons.unload(target('evicted'), evicted)
  await eventually(() => log.warnings.length === 1)
  await rm(file(), { recursive: true })
  await unloadReasons.flush()
  expect((await open()).of('uid of evicted')).toEqual(evicted)
})

test('what a person asks for where the disk takes nothing is refused, and nothing has changed', async () => {
  const unloadReasons = await open()
  await mkdir(file())
  await expect(unloadReasons.hold(target('held'), held)).rejects.toThrow(StateFileError)
  await expect(unloadReasons.pause(since)).rejects.toThrow(StateFileError)
  expect([unloadReasons.of('uid of held'), unloadReasons.pausedSince]).toEqual([undefined, undefined])
})

test('an unload reason ends with its object: one made again under its name starts over', async () => {
  const unloadReasons = await open()
  await unloadReasons.hold(target('tiny'), held)
  unloadReasons.listed('uid of tiny', target('tiny'))
  expect(unloadReasons.of('uid of tiny')).toEqual(held)
  unloadReasons.listed('another', target('tiny'))
  await unloadReasons.flush()
  expect(unloadReasons.of('uid of tiny')).toBeUndefined()
  expect(await readFile(file(), 'utf8')).not.toContain('tiny')
})

test('evictions of more than a day ago are forgotten, and no later ones', async () => {
  const unloadReasons = await open()
  unloadReasons.remember('old', { evictions: 4, evictedAt: 0 })
  unloadReasons.remember('of today', { evictions: 2, evictedAt: 2 * 3_600_000 })
  unloadReasons.remember('new', { evictions: 1, evictedAt: 25 * 3_600_000 })
  await unloadReasons.flush()
  const counts = ['old', 'of today', 'new'].map((uid) => unloadReasons.eviction(uid)?.evictions)
  expect(counts).toEqual([undefined, 2, 1])
})

test('people are told of what another machine may take meanwhile, and of nothing else', () => {
  expect([held, evicted, idle, undefined].map((reason) => holdOf(reason)?.by)).toEqual([
    'person',
    'pressure',
    undefined,
    undefined,
  ])
})

test('what a complete list does not have takes its unload reason and its protection with it, and another cluster’s list nothing', async () => {
  const before = await open()
  for (const name of ['gone', 'again', 'there']) await before.protect(target(name), true)
  await before.hold(target('again'), held)
  await before.protect({ ...target('gone'), uid: 'elsewhere', cluster: 'https://other' }, true)
  const unloadReasons = await open()
  for (const { name } of unloadReasons.placesIn('https://c')) {
    const uid = { again: 'another uid', there: 'uid of there' }[name]
    unloadReasons.listed(uid, { namespace: 'ns', name, cluster: 'https://c' })
  }
  await unloadReasons.flush()
  const after = await open()
  const kept = ['uid of gone', 'uid of again', 'uid of there', 'elsewhere'].filter((uid) => after.isProtected(uid))
  expect([kept, after.of('uid of again'), after.placesIn('https://c').map(({ name }) => name)]).toEqual([
    ['uid of there', 'elsewhere'],
    undefined,
    ['there'],
  ])
})
