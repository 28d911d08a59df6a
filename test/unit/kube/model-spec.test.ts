import { expect, test } from 'vitest'
import { parseModel } from '../../../src/agent-core/kube/resources.ts'

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
