import { performance } from 'node:perf_hooks'
import { expect, test } from 'vitest'
import { matchTensors } from '../../src/agent-core/memory/estimate/tensor-patterns.ts'
import { sizeUp } from '../../src/agent-core/reconcile/sizing.ts'

const names = Array.from({ length: 50 }, (_, at) => `blk.${at}.${'a'.repeat(60)}.weight`)
const endless = '(a+)+$'

test('a pattern that would take for ever ends at its deadline, and holds up nothing else meanwhile', async () => {
  let longestMs = 0
  let last = performance.now()
  const beat = setInterval(() => {
    longestMs = Math.max(longestMs, performance.now() - last)
    last = performance.now()
  }, 5)
  const asked = matchTensors([endless], names, 2_000)
  await expect(asked).rejects.toThrow(/patterns of spec\.tensorOverrides match could not be worked out within 2 s/)
  clearInterval(beat)
  // Of two seconds it would have been all.
  expect(longestMs).toBeLessThan(1_500)
})

test('patterns match as they are written, and one that is none is left out', async () => {
  const matches = await matchTensors(
    [String.raw`blk\.[01]\.`, '([', endless.replace('$', '')],
    names.slice(0, 3),
    60_000,
  )
  expect([...matches.keys()]).toEqual([String.raw`blk\.[01]\.`, '(a+)+'])
  expect([...(matches.get(String.raw`blk\.[01]\.`) ?? [])]).toEqual(names.slice(0, 2))
})

test('a need that such a pattern keeps from being worked out is unknown, with a sentence: the start is not admitted', async () => {
  const tensors = names.map((name) => ({ name, type: 'f16', dimensions: [1n], bytes: 2 }))
  const header = { version: 3, metadata: new Map(), tensors, bytesRead: 0 }
  const need = await sizeUp({
    of: 'x',
    models: { header: () => Promise.resolve(header as never) },
    model: { path: '/m.gguf', sizeBytes: 100 } as never,
    status: { phase: '' },
    argv: () => ['--override-tensor', `${endless}=CPU`],
    env: {},
    metal: true,
  })
  expect(need.estimate).toBeUndefined()
  expect(need.whyUnknown).toContain('use simpler patterns')
})
