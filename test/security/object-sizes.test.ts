import { describe, expect, test } from 'vitest'
import { parseInferenceService, parseModel } from '../../src/agent-core/kube/resources.ts'
import { composeSnapshot } from '../../src/agent-core/agent/snapshot.ts'
import { growsNoFaster, growth } from '../support/processor-time.ts'
import { sampleService, sampleSnapshot } from '../support/sample-snapshot.ts'

const metadata = { name: 'tiny', namespace: 'team', uid: '1', resourceVersion: '1' }
const huge = 'x'.repeat(900_000)
const many = (item: unknown, length = 100_000) => Array.from({ length }, () => item)

const modelMessage = (spec: object): string => {
  const parsed = parseModel({ metadata, spec }).spec
  return parsed.ok ? 'usable' : parsed.message
}
const serviceMessage = (spec: object): string => {
  const parsed = parseInferenceService({ metadata, spec }).spec
  return parsed.ok ? 'usable' : parsed.message
}

describe('a text of an object is bounded where it is read', () => {
  test.each([
    [{ source: huge }, 'spec.source: must be at most 2048 characters'],
    [{ source: 'hf://a/b\u001b[2J' }, 'spec.source: must not contain control characters'],
    [{ source: 'hf://a/b', quantization: huge }, 'spec.quantization: must be at most 253 characters'],
    [{ source: 'hf://a/b', files: many('a.gguf') }, 'spec.files: must be at most 1000 entries'],
    [{ source: 'hf://a/b', hardware: { accelerator: huge } }, 'spec.hardware.accelerator: must be at most 63'],
  ])('of a Model', (spec, sentence) => {
    const message = modelMessage(spec)
    expect(message).toContain(sentence)
    expect(message.length).toBeLessThan(200)
  })

  test.each([
    [{ extraArgs: many('-v') }, 'spec.extraArgs: must be at most 256 entries'],
    [{ extraArgs: [huge] }, 'spec.extraArgs.0: must be at most 16384 characters'],
    [{ env: many({ name: 'A', value: 'b' }) }, 'spec.env: must be at most 256 entries'],
    [{ env: [{ name: 'A', value: huge }] }, 'spec.env.0.value: must be at most 16384 characters'],
    [{ tensorOverrides: [huge] }, 'spec.tensorOverrides.0: must be at most 1024 characters'],
    [{ modelRef: huge }, 'spec.modelRef: must be at most 253 characters'],
  ])('of an InferenceService', (spec, sentence) => {
    const message = serviceMessage(spec)
    expect(message).toContain(sentence)
    expect(message.length).toBeLessThan(200)
  })

  test('a condition of 900 kB is cut, and the others and the service stay readable', () => {
    const conditions = [
      { type: 'Noise', status: 'True', message: huge },
      { type: 'MetalAgent', status: 'True', reason: 'Serving', message: 'Serving.' },
    ]
    const { spec, status } = parseInferenceService({ metadata, spec: { modelRef: 'tiny' }, status: { conditions } })
    expect([spec.ok, status.conditions.map(({ message }) => message.length <= 1_024)]).toEqual([true, [true, true]])
    expect(status.conditions[1]?.message).toBe('Serving.')
  })

  test('of labels and annotations what means something is kept among 100,000 others', () => {
    const annotations = { ...manyTexts(), 'metalbar.dev/runtime': 'llama-server', 'example.org/huge': huge }
    const labels = { ...manyTexts(), 'kueue.x-k8s.io/queue-name': 'night', app: 'tiny' }
    const read = parseInferenceService({ metadata: { ...metadata, annotations, labels } }).metadata
    expect(read.annotations['metalbar.dev/runtime']).toBe('llama-server')
    expect(read.labels['kueue.x-k8s.io/queue-name']).toBe('night')
    expect(JSON.stringify(read).length).toBeLessThan(64 * 1_024)
  })
})

interface Fields {
  readonly keys: Record<string, number>
  readonly list: (item: unknown) => unknown[]
}

test.each([
  [({ keys }: Fields) => ({ metadata, spec: { modelRef: 'tiny', endpoint: keys, unknown: keys } })],
  [({ keys }: Fields) => ({ metadata, spec: keys, status: keys })],
  [({ list }: Fields) => ({ metadata, spec: { env: list({}), extraArgs: list(1), replicas: 'x', rest: list({}) } })],
  [({ list }: Fields) => ({ metadata: { ...metadata, managedFields: list({}), ownerReferences: list({}) }, spec: {} })],
])('an object is read in a time that grows as it does, whatever its fields are (%#)', async (made) => {
  const read = (length: number) => {
    const keys = Object.fromEntries(Array.from({ length }, (_, index) => [`key-${index}`, index]))
    const raw = made({ keys, list: (item) => many(item, length) })
    return () => {
      try {
        parseInferenceService(raw)
      } catch (error) {
        expect(error).toMatchObject({ name: 'ZodError' })
      }
    }
  }
  expect(await growth(25_000, read)).toBeLessThan(growsNoFaster)
})

test('a snapshot of thirty services of which everybody says as much as can be said has less than 64 KiB', () => {
  const said = '漢\u202e\u001b[2J'.repeat(100_000)
  const failed = { status: 'failed', message: said } as const
  const waiting = { status: 'waiting' } as const
  const way = { kind: 'evict' as const, sentence: said, evict: [`${'n'.repeat(63)}/${'n'.repeat(63)}`] }
  const services = Array.from({ length: 30 }, (_, index) => {
    const { revision: _revision, ...rest } = sampleService({
      name: `${'n'.repeat(60)}-${index}`,
      namespace: 'n'.repeat(63),
      uid: crypto.randomUUID(),
      message: said,
      model: 'm'.repeat(253),
      logFile: `/Users/somebody/Library/Application Support/Metalbar/${'n'.repeat(126)}.log`,
      steps: { fetched: failed, started: failed, healthy: waiting, published: waiting, clusterAgrees: waiting },
      crash: { at: '2026-01-02T03:01:05.000Z', failures: 3, message: said, firstError: said, exitCode: 1 },
      memory: { needBytes: 1e9, priority: 'normal', isProtected: false, notes: [said], waysToFit: [way, way, way] },
    })
    return rest
  })
  const { bootId, version, host, cluster } = sampleSnapshot()
  const unsaid = { memory: undefined, memoryFigures: undefined, power: undefined, powerFigures: undefined }
  const rest = { ...unsaid, downloads: [], newestHistoryId: 0, figures: {}, startedAt: 0, now: 0 }
  const parts = { bootId, version, host, cluster, services, notices: [said], ...rest }
  const snapshot = composeSnapshot(undefined, parts)
  expect(Buffer.byteLength(JSON.stringify(snapshot))).toBeLessThan(64 * 1_024)
  expect(snapshot.services[0]?.memory?.waysToFit?.[0]?.evict).toEqual(way.evict)
})

/** Two thirds of what Kubernetes allows in annotations. */
function manyTexts(): Record<string, string> {
  return Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`a${index}`, 'x']))
}
