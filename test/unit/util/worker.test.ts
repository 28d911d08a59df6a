import { once } from 'node:events'
import type { Worker } from 'node:worker_threads'
import { expect, test } from 'vitest'
import { answerOfWorker, KeptWorkers, startWorker } from '../../../src/agent-core/util/worker.ts'

const worker = new URL('./obedient-worker.ts', import.meta.url)

test('a worker is given its input, an empty environment and none of the options of its parent', async () => {
  process.env['HF_TOKEN'] = 'secret'
  const answer = await answerOfWorker(worker, { input: { do: 'describe' } })
  delete process.env['HF_TOKEN']
  expect(answer).toEqual({ environment: {}, options: [] })
})

test.each([
  ['throws', { do: 'throw' }, 'this worker was told to throw'],
  ['ends without an answer', { do: 'end' }, 'The worker thread ended with code 3 before it answered.'],
  ['does not exist', undefined, /^Cannot find module .*missing-worker\.ts/],
])('a worker that %s is an error and not a wait', async (_, input, message) => {
  const file = input === undefined ? new URL('missing-worker.ts', worker) : worker
  await expect(answerOfWorker(file, { input })).rejects.toThrow(message)
})

test('a worker that needs more memory than it may have ends with an error, and this process goes on', async () => {
  await expect(answerOfWorker(worker, { input: { do: 'hoard' }, heapMiB: 24 })).rejects.toMatchObject({
    code: 'ERR_WORKER_OUT_OF_MEMORY',
  })
})

test('an abort ends a worker that never answers, with the reason of the abort', async () => {
  const stopped = new AbortController()
  const reason = new Error('nobody waits any more')
  const answer = answerOfWorker(worker, { input: { do: 'spin' }, signal: stopped.signal })
  stopped.abort(reason)
  await expect(answer).rejects.toBe(reason)
})

test('a worker that stays can be talked to, and moved buffers are not copied', async () => {
  const moved = new ArrayBuffer(8)
  const started = startWorker(worker, { input: { do: 'echo', moved }, transfer: [moved] })
  started.postMessage('hello')
  const answer: unknown[] = await once(started, 'message')
  await started.terminate()
  expect({ answer, left: moved.byteLength }).toEqual({ answer: ['hello'], left: 0 })
})

test('a kept worker answers one question after the other, several at a time are several workers', async () => {
  const { workers, started } = counted()
  const answers = [await workers.ask('a'), await workers.ask('b')]
  const together = await Promise.all([workers.ask('c'), workers.ask('d')])
  expect({ answers, together, started: started.length }).toEqual({
    answers: ['a', 'b'],
    together: ['c', 'd'],
    started: 2,
  })
})

test('a kept worker ends when it had no work for its time, or fails without any, and the next question starts another', async () => {
  const { workers, started } = counted({ keepMs: 50 })
  await workers.ask('a')
  await exitOf(started[0])
  expect([await workers.ask('b'), started.length]).toEqual(['b', 2])
  started[1]?.postMessage('throw')
  await exitOf(started[1])
  expect([await workers.ask('c'), started.length]).toEqual(['c', 3])
})

test('a kept worker that fails at a question, or is aborted, is not asked again', async () => {
  const { workers, started } = counted()
  await expect(workers.ask('throw')).rejects.toThrow('this worker was told to throw')
  const reason = new Error('nobody waits any more')
  const stopped = new AbortController()
  const answer = workers.ask('spin', { signal: stopped.signal })
  stopped.abort(reason)
  await expect(answer).rejects.toBe(reason)
  expect([await workers.ask('c'), started.length]).toEqual(['c', 3])
})

/** Not `once` of node:events, which takes an error for its own. */
const exitOf = (one: Worker | undefined) => new Promise((resolve) => one?.once('exit', resolve))

function counted(options = {}) {
  const started: Worker[] = []
  const start = () => {
    const one = startWorker(worker, { input: { do: 'echo' } })
    started.push(one)
    return one
  }
  return { workers: new KeptWorkers(start, options), started }
}
