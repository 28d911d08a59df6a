import { expect, test } from 'vitest'
import { DownloadTurns } from '../../../src/agent-core/models/download/limits.ts'
import { eventually } from '../../support/eventually.ts'

test('an aborted download keeps its turn until its last byte is written', async () => {
  const turns = new DownloadTurns(1)
  const ending = new AbortController()
  const written = Promise.withResolvers<undefined>()
  const seen: string[] = []
  const first = turns
    .take(ending.signal, noPlace, async () => {
      seen.push('the first begins')
      await written.promise
      seen.push('the first has written')
      ending.signal.throwIfAborted()
    })
    .catch((error: unknown) => seen.push(`the first: ${String(error)}`))
  await eventually(() => seen.length === 1)
  const second = turns.take(new AbortController().signal, noPlace, () => {
    seen.push('the second begins')
    return Promise.resolve()
  })
  ending.abort(new Error('no longer wanted'))
  await new Promise(setImmediate)
  written.resolve(undefined)
  await Promise.all([first, second])
  expect(seen.filter((line) => !line.startsWith('the first:'))).toEqual([
    'the first begins',
    'the first has written',
    'the second begins',
  ])
  expect(seen.indexOf('the first: Error: no longer wanted')).toBeGreaterThan(1)
})

test('who leaves while waiting is gone at once, and the next comes nearer', async () => {
  const turns = new DownloadTurns(1)
  const written = Promise.withResolvers<undefined>()
  const first = turns.take(new AbortController().signal, noPlace, () => written.promise)
  const leaving = new AbortController()
  const left = turns.take(leaving.signal, noPlace, () => Promise.reject(new Error('it had left')))
  const places: number[] = []
  const third = turns.take(
    new AbortController().signal,
    (ahead) => void places.push(ahead),
    () => Promise.resolve('done'),
  )
  leaving.abort(new Error('no longer wanted'))
  await expect(left).rejects.toThrow('no longer wanted')
  await expect(turns.take(leaving.signal, noPlace, () => Promise.resolve())).rejects.toThrow('no longer wanted')
  const before = [...places]
  written.resolve(undefined)
  await first
  expect([before[0], before.at(-1), await third]).toEqual([2, 1, 'done'])
})

function noPlace(): void {
  // the value is not used
}
