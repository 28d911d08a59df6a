import { afterEach, expect, test, vi } from 'vitest'
import { ModelLooks } from '../../../src/agent-core/api/model-looks.ts'
import { readGgufHeader } from '../../../src/agent-core/models/gguf/file-header.ts'
import { lookHere } from '../../../src/agent-core/models/look.ts'
import { sizedLook } from '../../../src/agent-core/api/fit.ts'
import { writeLlamaGguf } from '../../support/gguf-writer.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

afterEach(() => void vi.useRealTimers())

test('what a server said of a model is dropped ten minutes later, whether or not anybody asks', async () => {
  await using folder = await temporaryFolder()
  const file = `${folder.dir}/tiny.gguf`
  await writeLlamaGguf(file)
  const look = sizedLook(await lookHere(file, readGgufHeader))
  // Only timers tell the time.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const looks = new ModelLooks()
  let asked = 0
  const ask = () =>
    looks.of(
      'a model',
      () => {
        asked += 1
        return Promise.resolve(look)
      },
      new AbortController().signal,
    )
  await ask()
  await vi.advanceTimersByTimeAsync(599_000)
  await ask()
  expect([asked, vi.getTimerCount()]).toEqual([1, 1])
  await vi.advanceTimersByTimeAsync(2_000)
  expect(vi.getTimerCount()).toBe(0)
  await ask()
  expect(asked).toBe(2)
})

test('a look ends with the last who waits for it, and the next begins anew', async () => {
  const looks = new ModelLooks()
  const begun: AbortSignal[] = []
  const ask = (signal: AbortSignal) =>
    looks.of(
      'a model',
      (left) => {
        begun.push(left)
        return new Promise((_, reject) => left.addEventListener('abort', () => reject(new Error('It was aborted.'))))
      },
      signal,
    )
  const [first, second] = [new AbortController(), new AbortController()]
  const answers = Promise.allSettled([ask(first.signal), ask(second.signal)])
  first.abort()
  await Promise.resolve()
  const whileOneWaits = begun.map(({ aborted }) => aborted)
  second.abort()
  const settled = (await answers).map(({ status }) => status)
  const third = new AbortController()
  const again = Promise.allSettled([ask(third.signal)])
  const afterwards = begun.map(({ aborted }) => aborted)
  third.abort()
  await again
  expect({ whileOneWaits, settled, afterwards }).toEqual({
    whileOneWaits: [false],
    settled: ['rejected', 'rejected'],
    afterwards: [true, false],
  })
})
