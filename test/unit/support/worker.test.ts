import { once } from 'node:events'
import { expect, test } from 'vitest'
import { answerOfWorker, startWorker } from '../../../src/agent-core/support/worker.ts'

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
