import { loadAll } from 'js-yaml'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  applicationYaml,
  catalogue,
  manifestsOf,
  modelApplication,
  sourceOfModel,
  yamlOf,
} from '../../../src/contract/model-application.ts'
import { command, trustOf } from '../../../src/contract/commands.ts'
import { query, trustOfQuery } from '../../../src/contract/queries.ts'

const plain = { namespace: 'default', name: 'llama-3.1-8b', source: 'hf://org/repo' }
const read = (yaml: string): unknown[] => loadAll(yaml)

describe('the YAML of what is applied', () => {
  test('reads back as both objects', () => {
    const application = {
      ...plain,
      quantization: 'Q4_K_M',
      contextSize: 8_192,
      parallelSlots: 2,
      cacheType: 'q8_0',
    } as const
    const metadata = {
      name: 'llama-3.1-8b',
      namespace: 'default',
      labels: { 'metalbar.dev/created-by': 'metalbar' },
    }
    expect(read(applicationYaml(application))).toMatchObject([
      {
        apiVersion: 'inference.llmkube.dev/v1alpha1',
        kind: 'Model',
        metadata,
        spec: {
          source: 'hf://org/repo',
          format: 'gguf',
          quantization: 'Q4_K_M',
          hardware: { accelerator: 'metal' },
        },
      },
      {
        kind: 'InferenceService',
        metadata,
        spec: {
          modelRef: 'llama-3.1-8b',
          replicas: 1,
          contextSize: 8_192,
          parallelSlots: 2,
          cacheTypeK: 'q8_0',
          cacheTypeV: 'q8_0',
        },
      },
    ])
  })

  test('reads back as the same texts, whatever is in them', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string({ unit: 'grapheme' }),
      fc.constantFrom(
        'yes',
        'null',
        '~',
        '1e3',
        '0x1F',
        '2026-01-01',
        '- a',
        'a: b',
        'a #b',
        '',
        '---',
        '"',
        "'",
        '\\',
        '{{x}}',
      ),
      fc.constantFrom(
        '\u202egnp.exe',
        'a\nkind: Secret',
        'x"\n---\nkind: Pod',
        '\u2028',
        '\u0000',
        '🦙\t',
        '&a',
        '*a',
        '!!str',
        '%A',
      ),
    )
    fc.assert(
      fc.property(text, text, (key, value) => {
        fc.pre(key.isWellFormed() && value.isWellFormed() && key !== '__proto__')
        const documents = [{ spec: { [key]: value, deep: { n: 1, on: true } } }, { other: value }]
        expect(read(yamlOf(documents))).toEqual(documents)
      }),
      { numRuns: 100 },
    )
  })

  test('is plain to read where the texts are, and hides nothing where they are not', () => {
    expect(applicationYaml({ ...plain, contextSize: 4_096 })).toBe(
      [
        'apiVersion: inference.llmkube.dev/v1alpha1',
        'kind: Model',
        'metadata:',
        '  name: llama-3.1-8b',
        '  namespace: default',
        '  labels:',
        '    metalbar.dev/created-by: metalbar',
        'spec:',
        '  source: "hf://org/repo"',
        '  format: gguf',
        '  hardware:',
        '    accelerator: metal',
        '---',
        'apiVersion: inference.llmkube.dev/v1alpha1',
        'kind: InferenceService',
        'metadata:',
        '  name: llama-3.1-8b',
        '  namespace: default',
        '  labels:',
        '    metalbar.dev/created-by: metalbar',
        'spec:',
        '  modelRef: llama-3.1-8b',
        '  replicas: 1',
        '  contextSize: 4096',
        '',
      ].join('\n'),
    )
    expect(yamlOf([{ a: 'x\u202ey\u200b' }])).toBe('a: "x\\u202ey\\u200b"\n')
  })
})

describe('what may be applied', () => {
  test.each([
    { name: '3b-model', why: 'begins with a digit, which no Service may' },
    { name: 'Llama', why: 'has a capital' },
    { name: 'a..b', why: 'has an empty part' },
    { name: 'a\nkind: Pod', why: 'has an end of line' },
    { name: 'x'.repeat(64), why: 'is too long' },
  ])('never has a name that $why', ({ name }) => {
    expect(modelApplication.safeParse({ ...plain, name }).success).toBe(false)
  })

  test.each([
    'hf://org/re\u202epo',
    'https://a/b\u200b.gguf',
    'hf://org/x\u0000',
    'hf://org/x\ny',
    'x\u2028y',
    '',
    'h'.repeat(2_049),
  ])('never has the source %j', (source) => {
    expect(modelApplication.safeParse({ ...plain, source }).success).toBe(false)
    expect(query.safeParse({ name: 'fit', source }).success).toBe(false)
  })

  test.each([
    '/Users/me/secret.gguf',
    'file:///etc/passwd',
    'FILE:/etc/passwd',
    ' /etc/passwd',
    '~/x.gguf',
    './x.gguf',
  ])('is not for a page to say where it is %j', (source) => {
    const apply = command.parse({ name: 'applyModel', application: { ...plain, source } })
    expect([trustOf(apply), trustOfQuery(query.parse({ name: 'fit', source }))]).toEqual(['shell', 'shell'])
  })

  test.each(['hf://org/repo', 'https://a.example/b.gguf', 'llama-3.1-8b', 'org/repo'])(
    'may come from a page as %j',
    (source) => {
      const apply = command.parse({ name: 'applyModel', application: { ...plain, source } })
      expect([trustOf(apply), trustOfQuery(query.parse({ name: 'fit', source }))]).toEqual(['page', 'page'])
    },
  )
})

describe('the catalogue', () => {
  test('has names and sources that can be applied as they are', () => {
    for (const { name, source, quantization } of catalogue) {
      expect(modelApplication.safeParse({ namespace: 'default', name, source }).success).toBe(true)
      expect(source).toContain(quantization)
    }
    expect(new Set(catalogue.map(({ name }) => name)).size).toBe(catalogue.length)
  })

  test('stands for its sources wherever one may be typed', () => {
    expect(sourceOfModel(' Llama-3.1-8B ')).toBe(
      'https://huggingface.co/bartowski/Meta-Llama-3.1-8B-Instruct-GGUF/resolve/main/Meta-Llama-3.1-8B-Instruct-Q5_K_M.gguf',
    )
    expect(sourceOfModel('org/repo:Q4_K_M')).toBe('hf://org/repo:Q4_K_M')
    const kept = ['hf://org/repo', '/a/b.gguf', './a/b', '~/a/b', 'https://a/b', 'nothing']
    expect(kept.map(sourceOfModel)).toEqual(kept)
    const { model } = manifestsOf({ namespace: 'default', name: 'x', source: 'phi-4-mini' })
    expect(model['spec']).toMatchObject({ source: sourceOfModel('phi-4-mini') })
  })
})
