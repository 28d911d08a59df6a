import { expect, test } from 'vitest'
import { keptEntries } from '../../../src/agent-core/kube/resources.ts'

test('a thousand labels of others push out none of ours', () => {
  const others = Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`a${index}`, 'x']))
  const ours = { app: 'llama', 'llmkube.ai/managed-by': 'metal-agent' }
  expect(keptEntries({ ...others, ...ours })).toMatchObject(ours)
})

test('what kubectl keeps of an applied object, and what is too long to mean anything, is not kept', () => {
  const applied = { 'kubectl.kubernetes.io/last-applied-configuration': '{}' }
  const ours = { 'metalbar.dev/claim': 'x'.repeat(4_096) }
  const long = { 'metalbar.dev/idle-minutes': 'x'.repeat(4_097), [`llmkube.ai/${'n'.repeat(400)}`]: 'x' }
  expect(keptEntries({ ...applied, ...ours, ...long })).toEqual(ours)
})
