import { expect, test } from 'vitest'
import { firstServiceCommand } from '../../../src/renderer/first-run.ts'
import { percentOf } from '../../../src/contract/service.ts'
import { addressWords, detailWords } from '../../../src/renderer/words/services.ts'

test.each([
  {
    what: 'a download that goes on',
    progress: { doneBytes: 7.9e9, totalBytes: 18.6e9, bytesPerSecond: 61e6 },
    words: { percent: 42, text: '7.9 GB of 18.6 GB · 61.0 MB/s · 2 min left' },
  },
  {
    what: 'one that stands still',
    progress: { doneBytes: 1e9, totalBytes: 2e9, bytesPerSecond: 0 },
    words: { percent: 50, text: '1.0 GB of 2.0 GB · no data is coming in' },
  },
  {
    what: 'one of unknown size',
    progress: { doneBytes: 1e9, bytesPerSecond: 2e6 },
    words: { text: '1.0 GB · 2.0 MB/s · size not reported' },
  },
  {
    what: 'one that is all but complete',
    progress: { doneBytes: 996, totalBytes: 1_000, bytesPerSecond: 0 },
    words: { percent: 99, text: '996 B of 1.0 kB · no data is coming in' },
  },
  {
    what: 'one of nothing',
    progress: { doneBytes: 0, totalBytes: 0, bytesPerSecond: 0 },
    words: { text: '0 B · no data is coming in · size not reported' },
  },
  {
    what: 'more than was promised',
    progress: { doneBytes: 3e9, totalBytes: 2e9, bytesPerSecond: 1e6 },
    words: { percent: 100, text: '3.0 GB of 2.0 GB · 1.0 MB/s' },
  },
])('the words for $what', ({ progress, words }) => {
  expect({ percent: percentOf(progress), text: detailWords.progress(progress) }).toEqual(words)
})

test('a context with a space in its name reaches kubectl as one word', () => {
  const [line] = firstServiceCommand({ context: "kim's lab" }).split('\n')
  expect(line).toBe(`kubectl --context 'kim'\\''s lab' --namespace default apply -f - <<EOF`)
})

test('who asks is told by address and door', () => {
  const clients = [
    { door: 'clientProxy', address: '127.0.0.1', requests: 2 },
    { door: 'published', address: '10.0.0.7', requests: 1 },
  ] as const
  expect(addressWords.from([...clients])).toBe(
    '2 requests from this Mac · 1 request from 10.0.0.7, to the published address',
  )
  expect(addressWords.from()).toBe('nobody')
})
