import { expect, test } from 'vitest'
import { keptEntries } from '../../../src/agent-core/kube/raw-object.ts'

test('a thousand labels of others push out none of ours', () => {
  const others = Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`a${index}`, 'x']))
  const ours = { app: 'llama', 'llmkube.ai/managed-by': 'metal-agent' }
  expect(keptEntries({ ...others, ...ours })).toMatchObject(ours)
})
