import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ModelError } from '../../../src/agent-core/models/errors.ts'
import { type Choice, type Place, quantizationOf, selectFiles } from '../../../src/agent-core/models/selection.ts'
import { growsNoFaster, growth } from '../../support/processor-time.ts'

const place: Place = { name: 'org/repo', naming: (path) => `hf://org/repo/${path}`, isLocal: false }

function select(paths: readonly string[], choice: Choice = {}): unknown {
  const all = paths.map((path, at) => ({ path, sizeBytes: (at + 1) * 1_000_000_000 }))
  const { files, mmproj, notes } = selectFiles(all, choice, place)
  return {
    files: files.map(({ path }) => path),
    ...(mmproj === undefined ? {} : { mmproj: mmproj.path }),
    ...(notes.length === 0 ? {} : { notes }),
  }
}

function refused(paths: readonly string[], choice: Choice = {}): unknown {
  try {
    return select(paths, choice)
  } catch (error) {
    return error instanceof ModelError ? [error.kind, error.reason, error.message] : error
  }
}

describe('the quantization in a file name', () => {
  test.each([
    ['Llama-3.2-3B-Instruct-Q4_K_M.gguf', 'Q4_K_M'],
    ['qwen2.5-0.5b-instruct-q8_0.gguf', 'Q8_0'],
    ['gemma-3-4b-it-UD-Q4_K_XL.gguf', 'UD-Q4_K_XL'],
    ['model.IQ2_XXS.gguf', 'IQ2_XXS'],
    ['UD-IQ1_M/DeepSeek-R1-UD-IQ1_M-00001-of-00004.gguf', 'UD-IQ1_M'],
    ['Q4_K_M/DeepSeek-00001-of-00004.gguf', 'Q4_K_M'],
    ['gpt-oss-20b-mxfp4.gguf', 'MXFP4'],
    ['mistral-Q4_0_4_4.gguf', 'Q4_0_4_4'],
    ['phi-BF16.gguf', 'BF16'],
    ['Qwen3-8B.gguf', undefined],
  ])('%s', (path, expected) => {
    expect(quantizationOf(path)).toBe(expected)
  })
})

describe('the file that spec.quantization means', () => {
  const usual = [
    'M-Q4_K_M.gguf',
    'M-UD-Q4_K_M.gguf',
    'M-Q4_K_S.gguf',
    'M-Q8_0.gguf',
    'mmproj-F16.gguf',
    'imatrix_Q8_0.gguf',
  ]

  test.each(['Q4_K_M', 'q4_k_m', 'ud-q4_k_m', 'Q8_0'])('%s is found without regard to case', (quantization) => {
    const name = quantization.toUpperCase()
    expect(select(usual.slice(0, 4), { quantization })).toEqual({ files: [`M-${name}.gguf`] })
  })

  test('a part of several names is refused with all that it fits', () => {
    expect(refused(['M-Q4_K_S.gguf', 'M-Q4_K_M.gguf', 'M-Q8_0.gguf'], { quantization: 'q4_k' })).toEqual([
      'terminal',
      'Ambiguous',
      'spec.quantization q4_k fits several models of org/repo: M-Q4_K_S.gguf (1.0 GB), M-Q4_K_M.gguf (2.0 GB); set spec.quantization, as Q4_K_S.',
    ])
  })

  test('a part of one name alone is taken, and said', () => {
    expect(select(['M-Q4_0.gguf', 'M-Q8_0.gguf'], { quantization: 'Q4' })).toEqual({
      files: ['M-Q4_0.gguf'],
      notes: ['spec.quantization Q4 was read as Q4_0.'],
    })
  })

  test('one that is not there is refused with what there is, projectors and importance matrices left out', () => {
    expect(refused(usual, { quantization: 'Q5_K_M' })).toEqual([
      'transient',
      'NoSuchFile',
      'org/repo has no GGUF file of quantization Q5_K_M: it has M-Q4_K_M.gguf (1.0 GB), M-UD-Q4_K_M.gguf (2.0 GB), M-Q4_K_S.gguf (3.0 GB), M-Q8_0.gguf (4.0 GB); correct spec.quantization, or name the file in spec.source, as hf://org/repo/M-Q4_K_M.gguf.',
    ])
  })

  test('two models of the same quantization are told apart by the source', () => {
    expect(refused(['A-Q8_0.gguf', 'B-Q8_0.gguf'], { quantization: 'Q8_0' })).toEqual([
      'terminal',
      'Ambiguous',
      'spec.quantization Q8_0 fits several models of org/repo: A-Q8_0.gguf (1.0 GB), B-Q8_0.gguf (2.0 GB); name the one you mean in spec.source, as hf://org/repo/A-Q8_0.gguf.',
    ])
  })
})

describe('without spec.quantization', () => {
  test('the only model is taken', () => {
    expect(select(['README.md', 'M-Q2_K.gguf', 'config.json'])).toEqual({ files: ['M-Q2_K.gguf'] })
  })

  test('Q4_K_M is taken before others, and said', () => {
    expect(select(['M-Q8_0.gguf', 'M-Q4_K_M.gguf'])).toEqual({
      files: ['M-Q4_K_M.gguf'],
      notes: ['org/repo has 2 quantizations and spec.quantization names none, so Q4_K_M was taken.'],
    })
  })

  test('several without a Q4_K_M are refused with what to write', () => {
    expect(refused(['M-Q8_0.gguf', 'M-F16.gguf'])).toEqual([
      'terminal',
      'Ambiguous',
      'org/repo has several models: M-Q8_0.gguf (1.0 GB), M-F16.gguf (2.0 GB); set spec.quantization, as Q8_0.',
    ])
  })

  test('a repository without GGUF says what it has and what to do', () => {
    expect(refused(['config.json', 'model.safetensors'])).toEqual([
      'transient',
      'NoSuchFile',
      'org/repo has no GGUF model: it has config.json (1.0 GB), model.safetensors (2.0 GB); give a GGUF conversion of it, or set spec.format to mlx to serve it by mlx-lm.',
    ])
  })

  test('several models are listed from the smallest to the largest, and those of one size by their names', () => {
    const all = Object.entries({ 'c.gguf': 3, 'b.gguf': 1, 'a.gguf': 3 }).map(([path, sizeBytes]) => ({
      path,
      sizeBytes,
    }))
    expect(() => selectFiles(all, {}, place)).toThrow(/: b\.gguf \(1 B\), a\.gguf \(3 B\), c\.gguf \(3 B\);/)
  })

  test('a long list is cut', () => {
    const message = JSON.stringify(refused(Array.from({ length: 30 }, (_, at) => `m${at}.gguf`)))
    expect(message).toContain('m19.gguf (20.0 GB) and 10 more;')
  })
})

describe('a split model', () => {
  const parts = ['Q8_0/M-00003-of-00003.gguf', 'Q8_0/M-00001-of-00003.gguf', 'Q8_0/M-00002-of-00003.gguf']
  const inOrder = parts.toSorted()

  test.each([
    ['by its quantization', { quantization: 'Q8_0' }],
    ['by any of its parts', { path: 'Q8_0/M-00002-of-00003.gguf' }],
    ['by its folder', { path: 'Q8_0' }],
    ['by one part in spec.files', { files: ['Q8_0/M-00003-of-00003.gguf'] }],
  ])('is one model, named %s', (_, choice) => {
    expect(select([...parts, 'M-F16.gguf'], choice)).toEqual({ files: inOrder })
  })

  test('that lacks a part is refused by its name', () => {
    expect(refused(parts.slice(0, 2))).toEqual([
      'transient',
      'ShardMissing',
      'M-00001-of-00003.gguf is one of 3 parts and org/repo lacks Q8_0/M-00002-of-00003.gguf: put them there or give another source.',
    ])
  })
})

describe('spec.files and spec.mmproj', () => {
  const all = ['M-Q8_0.gguf', 'M-F16.gguf', 'mmproj-F16.gguf', 'draft/D.gguf']

  test('the first file is the one that is run', () => {
    expect(select(all, { files: ['M-F16.gguf', 'draft/D.gguf'], mmproj: 'mmproj-F16.gguf' })).toEqual({
      files: ['M-F16.gguf', 'draft/D.gguf'],
      mmproj: 'mmproj-F16.gguf',
    })
  })

  test('a projector that nobody asked for is not taken, but mentioned', () => {
    expect(select(all.slice(1, 3))).toEqual({
      files: ['M-F16.gguf'],
      notes: ['org/repo also has the projector mmproj-F16.gguf: set spec.mmproj to it if the model should see images.'],
    })
  })

  test('a file that is not there is named with what there is', () => {
    expect(refused(all.slice(0, 1), { mmproj: 'mmproj.gguf' })).toEqual([
      'transient',
      'NoSuchFile',
      'org/repo has no file "mmproj.gguf", which spec.mmproj names: it has M-Q8_0.gguf (1.0 GB).',
    ])
  })

  test('a source that names another file than spec.files is refused', () => {
    expect(refused(all, { path: 'M-Q8_0.gguf', files: ['M-F16.gguf'] })).toEqual([
      'terminal',
      'Ambiguous',
      'spec.source names M-Q8_0.gguf and spec.files does not: name the repository or folder alone in spec.source, or leave spec.files out.',
    ])
  })
})

describe('a folder format', () => {
  const repo = [
    '.gitattributes',
    'README.md',
    'LICENSE.txt',
    'config.json',
    'chat_template.jinja',
    'merges.txt',
    'model-00001-of-00002.safetensors',
    'model-00002-of-00002.safetensors',
    'model.safetensors.index.json',
    'consolidated.safetensors',
    'pytorch_model.bin',
    'M-Q8_0.gguf',
    'original/model.safetensors',
    'tokenizer.model',
    'tokenizer_config.json',
  ]

  test('mlx takes weights, configuration and tokenizer', () => {
    expect(select(repo, { format: 'mlx' })).toEqual({
      files: [
        'config.json',
        'chat_template.jinja',
        'merges.txt',
        'model-00001-of-00002.safetensors',
        'model-00002-of-00002.safetensors',
        'model.safetensors.index.json',
        'tokenizer.model',
        'tokenizer_config.json',
      ],
    })
  })

  test.each([
    ['parts that count from 0', ['model-0-of-2.safetensors', 'model-1-of-2.safetensors']],
    ['a whole one beside a part of other weights', ['model.safetensors', 'adapter-00001-of-00002.safetensors']],
  ])('mlx takes %s', (_, weights) => {
    expect(select(['config.json', ...weights], { format: 'mlx' })).toEqual({ files: ['config.json', ...weights] })
  })

  test('mlx without all of its parts is refused', () => {
    const refusal = refused(['config.json', 'weights-00002-of-00002.safetensors'], { format: 'mlx' })
    expect(refusal).toEqual([
      'transient',
      'ShardMissing',
      'weights-00002-of-00002.safetensors is one of 2 parts and org/repo lacks 1 of them: put them there or give another source.',
    ])
  })

  test('a repository that is none is refused with what it has', () => {
    expect(refused(['M-Q8_0.gguf'], { format: 'mlx' })).toEqual([
      'transient',
      'NoSuchFile',
      'org/repo has no model of spec.format mlx (config.json and .safetensors files): it has M-Q8_0.gguf (1.0 GB); correct spec.source or spec.format.',
    ])
  })
})

test('whatever a repository holds, a choice is made of its files or refused in one sentence', () => {
  const name = fc.oneof(
    fc.constantFrom(
      'M-Q4_K_M.gguf',
      'M-Q8_0.gguf',
      'a/M-00001-of-00002.gguf',
      'a/M-00002-of-00002.gguf',
      'config.json',
    ),
    fc.constantFrom(
      'model.safetensors',
      '../x.gguf',
      '/etc/x.gguf',
      'x\\y.gguf',
      'x\n.gguf',
      `${'n'.repeat(300)}.gguf`,
    ),
    fc.string({ unit: 'binary', minLength: 1 }).map((text) => `${text}.gguf`),
  )
  const choice = fc.record(
    {
      quantization: fc.constantFrom('Q4_K_M', 'q8', '', '('),
      format: fc.constantFrom('gguf', 'mlx', 'custom'),
      path: fc.constantFrom('a', 'M-Q8_0.gguf', '..'),
      files: fc.array(name, { maxLength: 2 }),
    },
    { requiredKeys: [] },
  )
  fc.assert(
    fc.property(fc.uniqueArray(name, { maxLength: 12 }), choice, (names, chosen) => {
      const all = names.map((path) => ({ path, sizeBytes: 1 }))
      try {
        const { files } = selectFiles(all, chosen, place)
        return files.length > 0 && files.every((file) => all.includes(file))
      } catch (error) {
        return error instanceof ModelError && /^\S[^\p{Cc}]*[.]$/su.test(error.message)
      }
    }),
    { numRuns: 1000 },
  )
})

describe('many files', () => {
  const listing = (length: number) => Array.from({ length }, (_, at) => `M-${at}.gguf`)
  const parts = (length: number) =>
    Array.from({ length }, (_, at) => `M-${String(at + 1).padStart(5, '0')}-of-${String(length).padStart(5, '0')}.gguf`)

  test.each<[string, (all: readonly string[], count: number) => string[]]>([
    ['a twentieth of all files', (all, count) => all.slice(-count)],
    ['all parts of one model, among many others', (_, count) => parts(count)],
  ])('of which the names are %s are found in a time that grows as they do', async (_, namesOf) => {
    const found = (count: number) => {
      const others = listing(20 * count)
      const files = namesOf(others, count)
      const all = [...new Set([...others, ...files])]
      return () => expect(select(all, { files })).toHaveProperty('files.length', count)
    }
    expect(await growth(500, found)).toBeLessThan(growsNoFaster)
  })

  test('more than any model has are refused with what to do', () => {
    expect(
      refused(['config.json', ...listing(20_000).map((name) => `${name}.safetensors`)], { format: 'mlx' }),
    ).toEqual([
      'terminal',
      'Ambiguous',
      'spec.source and spec.files mean 20001 files of org/repo, more than the 2000 that a model may have: name those of one model.',
    ])
  })
})
