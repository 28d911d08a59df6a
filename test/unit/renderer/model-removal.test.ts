import { expect, test } from 'vitest'
import type { DownloadView, StoredModelView } from '../../../src/contract/models.ts'
import { removalOf } from '../../../src/renderer/model-store.ts'
import { modelWords } from '../../../src/renderer/words/models.ts'
import { sampleService } from '../../support/sample-snapshot.ts'

const stored = (changes: Partial<StoredModelView> = {}): StoredModelView => ({
  ...{ name: 'a', source: '', state: 'complete', sizeBytes: 200, files: 1, path: '/m/1', usedBy: [] },
  ...changes,
})
const free = { prunable: 'no service uses it' }
const partial = { state: 'partial' } as const
const download = (state: DownloadView['state']): DownloadView => ({
  ...{ name: 'a', source: '', state, message: '', since: '2026-01-02T03:04:05.000Z' },
})
const calm = { services: [], downloads: [] }

test('everything of the name goes, and is confirmed with the size of all of it', () => {
  const models = [stored(free), stored({ ...free, sizeBytes: 40_000, path: '/m/2' }), stored({ name: 'b', ...free })]
  expect(removalOf('a', models, calm)).toEqual({ bytes: 40_200, entries: 2 })
  expect(modelWords.sure({ bytes: 40_200, entries: 2 })).toBe(
    'Delete 40.2 kB from the disk? That is all 2 entries of this name.',
  )
})

const fetching = { services: [], downloads: [download('downloading')] }
const wanted = { services: [sampleService({ model: 'a', state: 'fetching' })], downloads: [] }

test.each([
  { what: 'a service uses another of that name', models: [stored(free), stored({ usedBy: ['other/a'] })], world: calm },
  { what: 'the cluster has not answered', models: [stored()], world: calm },
  { what: 'a download of it goes on', models: [stored(partial)], world: fetching },
  { what: 'a service may fetch it', models: [stored(partial)], world: wanted },
])('nothing is deleted where $what', ({ models, world }) => {
  expect(removalOf('a', models, world)).toBeUndefined()
})

test('what is left of a download that was cut short goes once nobody goes on with it', () => {
  expect(removalOf('a', [stored(partial)], { services: [], downloads: [download('cancelled')] })).toEqual({
    bytes: 200,
    entries: 1,
  })
})

test('that no service uses a model is said only where that is known', () => {
  const words = [stored(free), stored(), stored(partial), stored({ usedBy: ['default/a'] })].map((model) =>
    modelWords.usage(model),
  )
  expect(words).toEqual([
    'No service uses it.',
    'Which services use it: not reported.',
    undefined,
    'Used by default/a.',
  ])
})
