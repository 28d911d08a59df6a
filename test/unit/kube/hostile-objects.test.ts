import { describe, expect, test } from 'vitest'
import { parseInferenceService } from '../../../src/agent-core/kube/resources.ts'

const metadata = { name: 'tiny', namespace: 'team', uid: '1', resourceVersion: '1' }
const nested: unknown = JSON.parse(`${'['.repeat(100_000)}1${']'.repeat(100_000)}`)

describe('an object that is nested a hundred thousand deep stays known, so that what serves is not taken for deleted', () => {
  test.each([
    [{ modelRef: 'tiny', endpoint: nested }, ['endpoint']],
    [{ modelRef: 'tiny', priority: 7, env: [{ name: 'A', valueFrom: nested }] }, ['priority']],
  ])('by what of its spec can be read (%#)', (spec, unread) => {
    const parsed = parseInferenceService({ metadata, spec }).spec
    expect(parsed).toMatchObject({ ok: false, unread, value: { modelRef: 'tiny' } })
  })
})

test('of where a variable comes from only that it comes from somewhere is kept', () => {
  const env = [
    { name: 'A', valueFrom: { secretKeyRef: { name: 'x'.repeat(1_000_000) } } },
    { name: 'B', value: 'b' },
  ]
  const { spec } = parseInferenceService({ metadata, spec: { modelRef: 'tiny', env } })
  expect(spec.value.env).toEqual([
    { name: 'A', valueFrom: true },
    { name: 'B', value: 'b' },
  ])
})

test('labels that repeat our prefix fill no memory', () => {
  const labels = Object.fromEntries(Array.from({ length: 50_000 }, (_, index) => [`metalbar.dev/${index}`, 'x']))
  const read = parseInferenceService({ metadata: { ...metadata, labels }, spec: { modelRef: 'tiny' } }).metadata
  expect(Object.keys(read.labels)).toHaveLength(1_000)
})
