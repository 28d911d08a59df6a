import { describe, expect, test } from 'vitest'
import { filesIn, withLocalFiles } from '../../../src/agent-core/runtimes/argument-policy.ts'
import { llamaServerFlags } from '../../../src/agent-core/runtimes/llama-server-flags.ts'
import { llamaServerArgv, type LlamaServerInput } from '../../../src/agent-core/runtimes/llama-server.ts'

const argv = (spec: LlamaServerInput['spec'], more: Partial<LlamaServerInput> = {}) =>
  llamaServerArgv({ spec, modelPath: '/store/m/m.gguf', port: 8123, ...more })

/** What every service gets, up to where most fields come in, and after. */
const head = '--model /store/m/m.gguf --host 0.0.0.0 --port 8123 --n-gpu-layers 99 --ctx-size 2048 --metrics'.split(' ')
const tail = ['--batch-size', '2048']
const usual = [...head, '--flash-attn', 'on', '--mlock', ...tail]

test('an empty spec gives the Go agent’s defaults', () => {
  expect(argv({})).toEqual(usual)
})

test('clients are told the name of the Model, unless the spec says another', () => {
  expect(argv({}, { alias: 'qwen' })).toEqual([...usual, '--alias', 'qwen'])
  for (const extraArgs of [['-a', 'mine'], ['--alias', 'mine'], ['--alias=mine']])
    expect(argv({ extraArgs }, { alias: 'qwen' })).toEqual([...usual, ...extraArgs])
})

test('every file is named below a link to its folder in the working directory', () => {
  const given = [
    ...[
      '--model',
      '/Users/ada/m,odels/qwen-00001-of-00002.gguf',
      '--host',
      '0.0.0.0',
      '--chat-template',
      '/Users/ada/x',
    ],
    ...['--mmproj', '/Users/ada/m,odels/mmproj.gguf', '-md', '/lent/draft.gguf'],
    ...['--lora=/store/a.gguf,/lent/b.gguf', '--control_vector_scaled', '/store/c:d.gguf:0.5'],
    ...['--mmproj', '/store/p.gguf', '--lora', 'relative.gguf', '--lora'],
  ]
  const { argv: local, links } = withLocalFiles(given, llamaServerFlags)
  expect(local).toEqual([
    ...['--model', 'model/qwen-00001-of-00002.gguf', '--host', '0.0.0.0', '--chat-template', '/Users/ada/x'],
    ...['--mmproj', '/Users/ada/m,odels/mmproj.gguf', '-md', 'files-2/draft.gguf'],
    ...['--lora=files-3/a.gguf,files-2/b.gguf', '--control_vector_scaled', 'files-3/c:d.gguf:0.5'],
    ...['--mmproj', 'files-3/p.gguf', '--lora', 'relative.gguf', '--lora'],
  ])
  expect(Object.fromEntries(links)).toEqual({ model: '/Users/ada/m,odels', 'files-2': '/lent', 'files-3': '/store' })
})

test('a spec with every field gives the Go agent’s arguments in its order', () => {
  const spec = {
    contextSize: 32_768,
    ropeScaling: { type: 'yarn' as const, factor: '4.0', originalContext: 8192 },
    parallelSlots: 4,
    flashAttention: true,
    jinja: true,
    cacheTypeK: 'q8_0',
    cacheTypeV: 'q8_0',
    cacheTypeCustomK: 'turbo4',
    cacheTypeCustomV: '',
    moeCPUOffload: true,
    moeCPULayers: 12,
    noKvOffload: true,
    noWarmup: true,
    reasoningBudget: 512,
    reasoningBudgetMessage: 'Wrap up.',
    metadataOverrides: ['a=int:1', 'b=bool:true'],
    tensorOverrides: ['exps=CPU', 'x=Metal'],
    batchSize: 4096,
    uBatchSize: 1024,
    mode: 'rerank' as const,
    extraArgs: ['--seed', '7', '--pooling=mean'],
  }
  expect(argv(spec, { gpuLayers: 33, performanceCores: 12 }).join('\n')).toBe(
    [
      '--model\n/store/m/m.gguf',
      '--host\n0.0.0.0',
      '--port\n8123',
      '--n-gpu-layers\n33',
      '--ctx-size\n32768',
      '--metrics',
      '--rope-scaling\nyarn\n--rope-scale\n4.0\n--yarn-orig-ctx\n8192',
      '--parallel\n4',
      '--flash-attn\non',
      '--mlock',
      '--cache-type-k\nturbo4',
      '--cache-type-v\nq8_0',
      '--cpu-moe',
      '--n-cpu-moe\n12',
      '--no-kv-offload',
      '--override-tensor\nexps=CPU\n--override-tensor\nx=Metal',
      '--override-kv\na=int:1\n--override-kv\nb=bool:true',
      '--threads\n12',
      '--batch-size\n4096',
      '--ubatch-size\n1024',
      '--no-warmup',
      '--reasoning-budget\n512\n--reasoning-budget-message\nWrap up.',
      '--jinja',
      '--reranking\n--embedding\n--cache-ram\n0',
      '--seed\n7\n--pooling=mean',
    ].join('\n'),
  )
})

describe('one field at a time', () => {
  const mid = [...head, '--flash-attn', 'on', '--mlock']
  test.each<[string, LlamaServerInput['spec'], string[]]>([
    ['a context size of 0 is the default', { contextSize: 0 }, usual],
    ['one slot is not passed', { parallelSlots: 1 }, usual],
    ['flash attention off leaves the choice to llama-server', { flashAttention: false }, [...head, '--mlock', ...tail]],
    [
      'custom cache types win when they are not empty',
      { cacheTypeK: 'f16', cacheTypeCustomK: 'x' },
      [...mid, '--cache-type-k', 'x', ...tail],
    ],
    ['empty cache types are not passed', { cacheTypeK: '', cacheTypeCustomV: '' }, usual],
    [
      'switches that are off are not passed',
      { moeCPUOffload: false, noKvOffload: false, noWarmup: false, jinja: false },
      usual,
    ],
    ['0 expert layers are not passed', { moeCPULayers: 0 }, usual],
    [
      'a reasoning budget of 0 is not passed, nor is its message',
      { reasoningBudget: 0, reasoningBudgetMessage: 'x' },
      usual,
    ],
    ['a batch size of 0 is the default', { batchSize: 0, uBatchSize: 0 }, usual],
    [
      'a rope type alone is enough',
      { ropeScaling: { type: 'linear' } },
      [...head, '--rope-scaling', 'linear', '--flash-attn', 'on', '--mlock', ...tail],
    ],
    [
      'metrics are not asked for twice',
      { extraArgs: ['--metrics'] },
      [...usual.filter((x) => x !== '--metrics'), '--metrics'],
    ],
    ['nor with a value', { extraArgs: ['--metrics=1'] }, [...usual.filter((x) => x !== '--metrics'), '--metrics=1']],
    ['chat adds nothing', { mode: 'chat' }, usual],
    ['embedding mode', { mode: 'embedding' }, [...usual, '--embedding', '--pooling', 'last', '--cache-ram', '0']],
    [
      'embedding mode leaves out what extraArgs say',
      { mode: 'embedding', extraArgs: ['--pooling', 'cls', '--cache-ram=1'] },
      [...usual, '--embedding', '--pooling', 'cls', '--cache-ram=1'],
    ],
    [
      'rerank mode',
      { mode: 'rerank' },
      [...usual, '--reranking', '--embedding', '--pooling', 'rank', '--cache-ram', '0'],
    ],
    [
      'drafts from what was said before, which need no other model',
      { speculativeDecoding: { type: 'ngram-simple', nDraftMax: 5, pMin: 0.5 } },
      [...usual, '--spec-type', 'ngram-simple', '--spec-draft-n-max', '5', '--spec-draft-p-min', '0.5'],
    ],
    [
      'drafts of another model, whose path no digest has',
      { speculativeDecoding: { type: 'draft', draftModelRef: 'small', nDraftMax: 5 } },
      [...usual, '--spec-type', 'draft-simple', '--spec-draft-n-max', '5'],
    ],
    ['drafts of layers of its own', { speculativeDecoding: { type: 'mtp' } }, [...usual, '--spec-type', 'draft-mtp']],
    ['no drafts of weights that are not named', { speculativeDecoding: { type: 'draft-eagle3', nDraftMax: 5 } }, usual],
    [
      'drafts of weights that extraArgs name',
      { speculativeDecoding: { type: 'draft' }, extraArgs: ['-md', '/d.gguf'] },
      [...usual, '--spec-type', 'draft-simple', '-md', '/d.gguf'],
    ],
    ['nothing of a type that is not known', { speculativeDecoding: { type: 'constructor', nDraftMax: 5 } }, usual],
    [
      'drafts of which extraArgs say the type',
      { speculativeDecoding: { type: 'ngram-mod' }, extraArgs: ['--spec-type', 'none'] },
      [...usual, '--spec-type', 'none'],
    ],
    [
      'a longer flag of the same beginning is another flag',
      { mode: 'embedding', extraArgs: ['--embedding-x'] },
      [...usual, '--embedding', '--pooling', 'last', '--cache-ram', '0', '--embedding-x'],
    ],
  ])('%s', (_, spec, expected) => {
    expect(argv(spec)).toEqual(expected)
  })

  test.each([
    ['simple', 'draft-simple'],
    ['eagle3', 'draft-eagle3'],
    ['mtp', 'draft-mtp'],
    ['dflash', 'draft-dflash'],
    ['dspark', 'draft-dspark'],
  ])('draft weights that are here are named with the type draft-%s', (kind, type) => {
    const speculativeDecoding = { type: `draft-${kind}`, draftModel: 'd.gguf', pMin: 0 }
    const given = { spec: { speculativeDecoding }, modelPath: '/m.gguf', port: 1, draft: '/d.gguf' }
    expect(llamaServerArgv(given).slice(-6)).toEqual([
      ...['--spec-type', type, '--model-draft', '/d.gguf', '--spec-draft-p-min', '0'],
    ])
  })

  test.each([
    [undefined, '99'],
    [0, '99'],
    [-1, '-1'],
    [20, '20'],
  ])('%s GPU layers are passed as %s', (gpuLayers, expected) => {
    expect(argv({}, { gpuLayers })[7]).toBe(expected)
  })

  test('threads follow the performance cores, and are left to llama-server where there are none', () => {
    expect(argv({}, { performanceCores: 8 })).toEqual([...mid, '--threads', '8', ...tail])
    expect(argv({}, { performanceCores: 0 })).toEqual(usual)
  })
})

test('the files that further arguments name are known, so that they are not deleted while the server runs', () => {
  const args = ['--lora', '/m/a.gguf,/m/b.gguf', '--temp', '1', '--lora-scaled=/m/c.gguf:0.5', '-md', '/m/d.gguf']
  expect(filesIn(args, llamaServerFlags)).toEqual(['/m/a.gguf', '/m/b.gguf', '/m/c.gguf', '/m/d.gguf'])
})
