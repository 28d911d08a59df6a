import { expect, test } from 'vitest'
import { type ContentKind, contentKindOf, formatContradiction } from '../../../../src/agent-core/models/content-kind.ts'

test('a format and a file that belong together, and a file that is no model, are no contradiction', () => {
  const fine: [string | undefined, ContentKind][] = [
    ['gguf', 'gguf'],
    ['mlx', 'safetensors'],
    ['safetensors', 'safetensors'],
    ['pytorch', 'zip'],
    ['pytorch', 'pickle'],
    ['custom', 'gguf'],
    [undefined, 'zip'],
    ['gguf', 'html'],
    ['mlx', 'unknown'],
  ]
  expect(fine.map(([format, kind]) => formatContradiction(format, kind))).toEqual(fine.map(() => undefined))
})

test.each([
  [
    'mlx',
    'GGUF\x03\0\0\0',
    'spec.format says mlx, but the file is GGUF: set spec.format to gguf, or let spec.source name an MLX model.',
  ],
  [
    'gguf',
    '\x20\0\0\0\0\0\0\0{"a":1}',
    'spec.format says gguf, but the file is a safetensors file: set spec.format to safetensors, or let spec.source name a GGUF model.',
  ],
  [
    'gguf',
    'PK\x03\x04',
    'spec.format says gguf, but the file is a zip archive, which is how PyTorch saves models: set spec.format to pytorch, or let spec.source name a GGUF model.',
  ],
  [
    'pytorch',
    'GGUF',
    'spec.format says pytorch, but the file is GGUF: set spec.format to gguf, or let spec.source name a PyTorch model.',
  ],
  [
    'safetensors',
    'GGUF',
    'spec.format says safetensors, but the file is GGUF: set spec.format to gguf, or let spec.source name a safetensors model.',
  ],
])('spec.format %s contradicts a file that begins with %j', (format, start, sentence) => {
  expect(formatContradiction(format, contentKindOf(Buffer.from(start, 'latin1')))).toBe(sentence)
})

test.each([
  [1n, 'unknown'],
  [2n, 'safetensors'],
  [100_000_000n, 'safetensors'],
  [100_000_001n, 'unknown'],
])('a file that says its JSON header has %i bytes is %s: the format allows 2 to 100 million', (length, kind) => {
  const start = Buffer.alloc(16, '{')
  start.writeBigUInt64LE(length)
  expect(contentKindOf(start)).toBe(kind)
})
