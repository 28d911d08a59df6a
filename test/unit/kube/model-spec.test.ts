import { expect, test } from 'vitest'
import { parseInferenceService, parseModel } from '../../../src/agent-core/kube/resources.ts'

const spec = (fields: object): unknown => {
  const metadata = { name: 'm', namespace: 'ns', uid: '1', resourceVersion: '1' }
  const parsed = parseModel({ metadata, spec: { source: 'org/repo', ...fields } }).spec
  return parsed.ok ? parsed.value : parsed.message
}

test('a Model says which files of its source are meant, and by which checksum', () => {
  const fields = {
    quantization: 'Q4_K_M',
    files: ['a.gguf'],
    mmproj: 'mmproj.gguf',
    sha256: 'aB'.repeat(32),
    refreshPolicy: 'OnChange',
    sourceSecretRef: { name: 'hub' },
  }
  expect(spec(fields)).toEqual({ source: 'org/repo', format: 'gguf', ...fields })
  expect(spec({})).toEqual({ source: 'org/repo', format: 'gguf', files: [], refreshPolicy: 'IfNotPresent' })
})

test.each([
  [{ sha256: 'abc' }, 'spec.sha256: must be 64 hexadecimal digits'],
  [{ refreshPolicy: 'Always' }, 'spec.refreshPolicy: '],
  [{ files: [1] }, 'spec.files.0: '],
])('what the schema of LLMKube does not allow is refused by the field (%j)', (fields, message) => {
  expect(spec(fields)).toContain(message)
})

test('a field that is missing its own required part is left out, and nothing of the rest is lost', () => {
  const metadata = { name: 's', namespace: 'ns', uid: '1', resourceVersion: '1' }
  const rest = { modelRef: 'tiny', suspend: true, replicas: 0, priority: 'high', endpoint: { port: 8080 } }
  for (const ropeScaling of [{ type: 'dynamic', factor: '4' }, { factor: '4' }, {}, 'yarn']) {
    const { spec: parsed } = parseInferenceService({ metadata, spec: { ...rest, ropeScaling } })
    expect(parsed).toMatchObject({ ok: false, value: rest })
    expect(parsed.value).not.toHaveProperty('ropeScaling')
    expect(parsed.ok ? [] : parsed.unread).toContain('ropeScaling')
  }
})
