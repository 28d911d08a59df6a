import { expect, test, vi } from 'vitest'
import { formatBytes } from '../../src/contract/format.ts'
import { matchTensors } from '../../src/agent-core/memory/estimate/server-arguments.ts'
import { specRefusal } from '../../src/agent-core/reconcile/runtime-choice.ts'
import { inferenceServiceSpec } from '../../src/agent-core/kube/resources.ts'
import { sizeUp } from '../../src/agent-core/reconcile/sizing.ts'
import { growth } from '../support/processor-time.ts'

const names = Array.from({ length: 50 }, (_, at) => `blk.${at}.${'a'.repeat(60)}.weight`)
const endless = '(a+)+$'

test('a pattern that would take for ever ends at its deadline, and holds up nothing else meanwhile', async () => {
  let turns = 0
  const beat = setInterval(() => (turns += 1), 5)
  const asked = matchTensors([endless], names, 500)
  await expect(asked).rejects.toThrow(/patterns of spec\.tensorOverrides match could not be worked out within 0.5 s/)
  clearInterval(beat)
  // A loop that is held for as long has one turn, after them.
  expect(turns).toBeGreaterThan(10)
})

test('patterns match as they are written, and one that is none is left out', async () => {
  const matches = await matchTensors(
    [String.raw`blk\.[01]\.`, '([', endless.replace('$', '')],
    names.slice(0, 3),
    60_000,
  )
  expect([...matches.readable]).toEqual([String.raw`blk\.[01]\.`, '(a+)+'])
  const first = names.slice(0, 3).map((name) => matches.deciding.get(name))
  expect(first).toEqual([String.raw`blk\.[01]\.`, String.raw`blk\.[01]\.`, '(a+)+'])
})

const sized = (overrides: readonly string[], tensorNames: readonly string[]) => {
  const tensors = tensorNames.map((name) => ({ name, type: 'f16', dimensions: [1n], bytes: 2 }))
  const metadata = new Map<string, unknown>([
    ['general.architecture', 'llama'],
    ['llama.block_count', 50],
    ['llama.embedding_length', 64],
    ['llama.attention.head_count', 1],
  ])
  return sizeUp({
    of: 'x',
    models: {
      header: () => Promise.resolve({ metadata, tensors } as never),
    },
    model: { path: '/m.gguf', sizeBytes: 100 },
    status: { phase: '' },
    argv: () => overrides.flatMap((one) => ['--override-tensor', one]),
    env: {},
    metal: true,
  })
}

test('a spec that names more files beside the model than anybody has is not sized, and so not admitted', async () => {
  const need = await sizeUp({
    of: 'x',
    models: { header: () => Promise.reject(new Error('Not asked for.')) },
    model: { path: '/m.gguf', sizeBytes: 100 },
    status: { phase: '' },
    argv: () => ['--lora', Array.from({ length: 10_000 }, () => '/a-00001-of-01000.gguf').join(',')],
    env: {},
    metal: true,
  })
  expect(need.estimate).toBeUndefined()
  expect(need.whyUnknown).toBe('It names 10000 files beside the model; at most 64 can be counted. Name fewer.')
})

test('a need that such a pattern keeps from being worked out is unknown, with a sentence: the start is not admitted', async () => {
  const timeout = AbortSignal.timeout.bind(AbortSignal)
  using _sooner = vi.spyOn(AbortSignal, 'timeout').mockImplementation(() => timeout(500))
  const need = await sized([`${endless}=CPU`], names)
  expect(need.estimate).toBeUndefined()
  expect(need.whyUnknown).toContain('use simpler patterns')
})

test('as many overrides as are taken, each written over and over, of a model with as many tensors as there may be, cost an estimate what a few do', async () => {
  const many = Array.from({ length: 32_750 }, (_, at) => `blk.${at % 50}.expert.${at}.weight`)
  const estimated = async (count: number) => {
    const distinct = Array.from({ length: count - 1 }, (_, at) => `never${at}=CPU`)
    const overrides = [...Array.from({ length: 4 }, () => distinct.join(',')), String.raw`blk\.[01]\.=CPU`]
    const { estimate, changeable } = await sized(overrides, many)
    expect(estimate?.notes.join(' ')).toContain(
      `${formatBytes((2 * 2 * many.length) / 50)} of the weights stay with the CPU`,
    )
    return () => expect(changeable.estimateAt?.({})).toBe(estimate?.total)
  }
  // The window of another size is found by dozens of estimates in one turn: each looks at the tensors, and at no override for each.
  expect(await growth(64, estimated)).toBeLessThan(2)
})

test('more overrides are refused, as a field and as arguments, of the model and of its draft model', () => {
  const policy = { allowsUnsafe: true, modelRoots: [], allowedEnv: [] }
  const refusal = (spec: object) => specRefusal(inferenceServiceSpec.parse(spec), policy)
  const list = (count: number) => Array.from({ length: count }, (_, at) => `t${at}=CPU`)
  const repeated = [...list(256), ...list(256)].join(',')
  expect(refusal({ tensorOverrides: list(200), extraArgs: ['-ot', list(256).join(',')] })).toBeUndefined()
  expect(refusal({ extraArgs: ['-ot', repeated, '-otd', repeated] })).toBeUndefined()
  const tooMany = [
    { tensorOverrides: list(200), extraArgs: ['--override_tensor', 'more=CPU,'.repeat(2) + list(256).join(',')] },
    { tensorOverrides: [list(100).join(',')], extraArgs: [`--override-tensor=${list(257).join(',')}`] },
    { extraArgs: ['-otd', list(257).join(',')] },
    { extraArgs: ['--spec-draft-override-tensor', list(257).join(',')] },
    {
      extraArgs: list(257)
        .slice(0, 128)
        .flatMap((one, at) => ['--override-tensor-draft', `${one},u${at}=CPU,v${at}=CPU`]),
    },
  ]
  for (const spec of tooMany) {
    expect(refusal(spec)).toMatchObject({
      reason: 'Refused',
      message: expect.stringMatching(
        /^spec\.tensorOverrides is refused: .* holds \d+ different overrides, and at most 256/,
      ) as unknown,
    })
  }
})
