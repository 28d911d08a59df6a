import { describe, expect, test } from 'vitest'
import { readAnswer } from '../../../src/agent-core/kube/large-answer.ts'
import { parseEndpointSlice, parseInferenceService, parseModel } from '../../../src/agent-core/kube/resources.ts'

const metadata = {
  ...{ name: 'tiny', namespace: 'team', uid: '1', resourceVersion: '1', generation: 3 },
  labels: { app: 'tiny', 'example.org/a': 'b' },
  annotations: { 'metalbar.dev/runtime': 'llama-server', other: 'x'.repeat(5_000) },
  ownerReferences: [{ apiVersion: 'v1', kind: 'A', name: 'a', uid: '2', more: [[]] }],
  managedFields: [{ manager: 'kubectl', subresource: 'status', fieldsV1: { 'f:a': {} } }],
}
const differentObjects = (count: number) => Array.from({ length: count }, (_, index) => ({ [index.toString(36)]: 1 }))
const shapes = differentObjects(1_000)
const padding = 'x'.repeat(600_000)
const nested = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
const { signal } = new AbortController()

describe('an object that is too large for one turn is read in another thread, and as any other', () => {
  const spec = { modelRef: 'tiny', env: [{ name: 'A', valueFrom: { secretKeyRef: { name: 'a' } } }], replicas: 2 }
  const conditions = [{ type: 'MetalAgent', status: 'True', reason: 'Serving', message: 'x'.repeat(5_000) }]
  test.each([
    ['InferenceService', parseInferenceService, { spec, status: { conditions } }],
    ['InferenceService', parseInferenceService, { spec: { ...spec, endpoint: shapes, priority: shapes } }],
    ['InferenceService', parseInferenceService, { spec: { ...spec, extraArgs: shapes }, status: shapes }],
    [
      'InferenceService',
      parseInferenceService,
      { spec: { ...spec, env: { a: shapes } }, status: { conditions: shapes } },
    ],
    ['InferenceService', parseInferenceService, { spec: { ...spec, env: [{ name: 'A', valueFrom: shapes }] } }],
    ['InferenceService', parseInferenceService, { spec: 'text' }],
    ['Model', parseModel, { spec: { source: 'hf://a/b', hardware: { gpu: { layers: 3 } } } }],
    ['Model', parseModel, { spec: { source: {} }, status: { phase: 'Ready', gguf: { layerCount: 3, x: shapes } } }],
    [
      'EndpointSlice',
      parseEndpointSlice,
      { addressType: 'IPv4', endpoints: [{ addresses: ['192.0.2.1'] }], ports: null },
    ],
  ])('%s %#', async (kind, parse: (raw: unknown) => unknown, fields) => {
    const raw = { metadata, ...fields, unknown: padding }
    const expected = parse(raw)
    expect(parse(await readAnswer(JSON.stringify(raw), { form: 'object', kind }, signal))).toEqual(expected)
    const event = JSON.stringify({ type: 'MODIFIED', object: raw })
    const read = await readAnswer(event, { form: 'event', kind }, signal)
    expect(read).toMatchObject({ type: 'MODIFIED' })
    expect(parse(Reflect.get(Object(read), 'object'))).toEqual(expected)
    expect(JSON.stringify(read).length).toBeLessThan(64 * 1024)
    const list = JSON.stringify({ metadata: { resourceVersion: '7' }, items: [raw, raw] })
    const page = await readAnswer(list, { form: 'list', kind }, signal)
    expect(page).toMatchObject({ metadata: { resourceVersion: '7' } })
    const items: unknown = Reflect.get(Object(page), 'items')
    expect(Array.isArray(items) && items.map(parse)).toEqual([expected, expected])
  })
})

test('an object without a parser of its own keeps all but what its metadata are too large with', async () => {
  const data = { token: padding }
  const raw = { metadata: { ...metadata, managedFields: [{ time: 'T', fieldsV1: shapes }] }, data }
  const read = await readAnswer(JSON.stringify(raw), { form: 'object', kind: 'Secret' }, signal)
  expect(read).toMatchObject({ metadata: { name: 'tiny', managedFields: [{ time: 'T' }] }, data })
  expect(JSON.stringify(read).length).toBeLessThan(620_000)
})

test('what the server complains about on a watch is read whole, however long it is', async () => {
  const object = { code: 410, reason: 'Expired', message: padding }
  const text = JSON.stringify({ type: 'ERROR', object })
  expect(await readAnswer(text, { form: 'event', kind: 'Model' }, signal)).toEqual({ type: 'ERROR', object })
})

test.each([
  ['the most objects', `[${'{},'.repeat(1_000_000)}{}]`],
  ['the deepest', `[${Array.from({ length: 15 }, () => nested).join(',')}]`],
  ['the most different ones', JSON.stringify(differentObjects(280_000))],
])('an object as large as the API server takes any is read whatever it is made of: %s', async (_, junk) => {
  const text = `{"metadata":${JSON.stringify(metadata)},"spec":{"modelRef":"tiny","endpoint":${junk}}}`
  expect(text.length).toBeGreaterThan(2.8 * 1024 ** 2)
  const raw = await readAnswer(text, { form: 'object', kind: 'InferenceService' }, signal)
  expect(parseInferenceService(raw)).toMatchObject({
    metadata: { name: 'tiny' },
    spec: { value: { modelRef: 'tiny' } },
  })
})
