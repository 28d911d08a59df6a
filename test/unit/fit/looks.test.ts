import { afterEach, expect, test, vi } from 'vitest'
import { Looks } from '../../../src/agent-core/fit/looks.ts'
import { readGgufHeader } from '../../../src/agent-core/models/gguf/file-header.ts'
import { lookHere } from '../../../src/agent-core/models/look.ts'
import { sizedLook } from '../../../src/agent-core/fit/sized-look.ts'
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
  const looks = new Looks()
  let asked = 0
  const ask = () =>
    looks.of('a model', () => {
      asked += 1
      return Promise.resolve(look)
    })
  await ask()
  await vi.advanceTimersByTimeAsync(599_000)
  await ask()
  expect([asked, vi.getTimerCount()]).toEqual([1, 1])
  await vi.advanceTimersByTimeAsync(2_000)
  expect(vi.getTimerCount()).toBe(0)
  await ask()
  expect(asked).toBe(2)
})
