import { expect, test } from 'vitest'
import { isBelow } from '../../../src/agent-core/util/is-below.ts'

test.each([
  ['/models/a.gguf', true],
  ['/models/..hidden/a.gguf', true],
  ['/models', false],
  ['/models/', false],
  ['/', false],
  ['/models/../etc/passwd', false],
  ['/models-of-others/a.gguf', false],
])('%s lies below /models: %s', (path, below) => {
  expect(isBelow(path, '/models')).toBe(below)
  expect(isBelow(path, '/models/')).toBe(below)
})
