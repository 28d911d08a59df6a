import { expect, test } from 'vitest'
import { dnsLabel } from '../../../src/contract/names.ts'
import {
  changedAnnotations,
  leaseAnnotations,
  leaseNameOf,
  microTime,
  nodeNameOf,
} from '../../../src/agent-core/publishing/lease-content.ts'
import { crowdedFacts, nodeFacts } from './node-facts.ts'

const told = (change: Partial<typeof nodeFacts> = {}) => {
  const entries = Object.entries(leaseAnnotations({ ...nodeFacts, ...change }))
  return Object.fromEntries(entries.map(([key, value]) => [key.replace('metalbar.dev/', ''), value]))
}

test('each fact is an annotation; a runtime that does not run and what is not known are not told', () => {
  const [qwen, gemma] = nodeFacts.models
  expect(told()).toEqual({
    host: 'mac',
    'agent-version': '0.9.0',
    runtimes: '[{"name":"llama-server","version":"6500","formats":["gguf"]}]',
    'memory-budget': '103079215104',
    'memory-available': '42949672960',
    models: JSON.stringify([qwen, gemma]),
    'models-left-out': null,
    'models-served': '1',
    load: '0.26',
    watts: '31',
    paused: 'false',
  })
  const unknown = { budgetBytes: undefined, availableBytes: undefined, load: undefined, watts: undefined }
  expect(told({ ...unknown, paused: true, models: [] })).toMatchObject({
    ...{ paused: 'true', models: '[]' },
    ...{ 'memory-budget': null, 'memory-available': null, load: null, watts: null },
  })
})

test('only what is other than before is written again', () => {
  const before = leaseAnnotations(nodeFacts)
  expect([
    changedAnnotations(leaseAnnotations({ ...nodeFacts, availableBytes: 40 * 1024 ** 3 + 54_321 }), before),
    changedAnnotations(leaseAnnotations({ ...nodeFacts, watts: undefined, modelsServed: 2 }), before),
  ]).toEqual([{}, { 'metalbar.dev/watts': null, 'metalbar.dev/models-served': '2' }])
})

test('thousands of models with the longest names leave the Lease below 8 kB: the first are told, and the others counted', () => {
  const annotations = leaseAnnotations(crowdedFacts)
  const models = JSON.parse(annotations['metalbar.dev/models'] ?? '') as readonly { readonly name: string }[]
  expect(models.length).toBeGreaterThan(5)
  expect(models.map(({ name }) => name)).toEqual(crowdedFacts.models.slice(0, models.length).map(({ name }) => name))
  expect(annotations['metalbar.dev/models-left-out']).toBe(String(crowdedFacts.models.length - models.length))
  // What the API server adds is counted in the test on it.
  expect(Buffer.byteLength(JSON.stringify(annotations))).toBeLessThan(6_000)
})

test('names that take more room when they are escaped do not take it from others', () => {
  const evil = { name: '"\\\u0007'.repeat(2_000), digest: `sha256:${'a'.repeat(64)}`, sizeBytes: 1 }
  const annotations = leaseAnnotations({ ...nodeFacts, models: [evil, ...nodeFacts.models, evil] })
  expect(JSON.parse(annotations['metalbar.dev/models'] ?? '')).toEqual(nodeFacts.models)
  expect(annotations['metalbar.dev/models-left-out']).toBe('2')
})

test('a host name that is a DNS label is the node, and any other becomes one that no other host name becomes', () => {
  const names = ['Mac-Studio.local', 'mac-studio.local', 'mac studio local', 'mac-studio-local', 'Büro', '日本', '']
  const long = ['x'.repeat(64), 'x'.repeat(65), `${'x'.repeat(54)}-y`.repeat(3)]
  const nodes = [...names, ...long].map(nodeNameOf)
  expect(nodes.slice(0, 5)).toEqual([
    expect.stringMatching(/^mac-studio-local-[0-9a-f]{8}$/),
    expect.stringMatching(/^mac-studio-local-[0-9a-f]{8}$/),
    expect.stringMatching(/^mac-studio-local-[0-9a-f]{8}$/),
    'mac-studio-local',
    expect.stringMatching(/^b-ro-[0-9a-f]{8}$/),
  ])
  expect(nodes.filter((node) => node.length > 63 || !dnsLabel.test(node))).toEqual([])
  expect(new Set(nodes).size).toBe(nodes.length)
  expect([leaseNameOf('mac'), nodeNameOf('x'.repeat(63))]).toEqual(['metalbar-mac', 'x'.repeat(63)])
})

test('a time is written as a Lease has it, with microseconds', () => {
  expect(microTime(Date.UTC(2026, 10, 26, 1, 2, 3, 45))).toBe('2026-11-26T01:02:03.045000Z')
})
