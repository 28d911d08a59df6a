// Asks an agent's `/healthz` on a thread of its own, which the test's work does not delay.
import { readFileSync } from 'node:fs'
import { Agent, get } from 'node:http'
import { parentPort, workerData } from 'node:worker_threads'
import { z } from 'zod'

const askEveryMs = 50
const { pid, port } = z.object({ pid: z.number(), port: z.number() }).parse(workerData)
const connection = new Agent({ keepAlive: true, maxSockets: 1 })

let longestMs = 0
let hasAnswered = false
/** Why the last question has no answer. */
let failure: string | undefined
/** What was known when the question under way was asked; undefined between two of them. */
let asked: { readonly atMs: number; readonly queuedMs: number } | undefined

/** How long the kernel has let this thread and the agent's main thread wait for a processor, in milliseconds; 0 where no kernel tells. */
function queuedMs(): number {
  return [`/proc/${pid}/task/${pid}/schedstat`, '/proc/thread-self/schedstat'].reduce((sum, file) => {
    try {
      return sum + Number(readFileSync(file, 'utf8').split(' ')[1]) / 1e6
    } catch {
      return sum
    }
  }, 0)
}

/** How long the question under way has waited for the agent, and not for a processor. */
function waitedMs(): number {
  return asked === undefined ? 0 : performance.now() - asked.atMs - (queuedMs() - asked.queuedMs)
}

function ask(): void {
  const atMs = performance.now()
  asked = { atMs, queuedMs: queuedMs() }
  const done = (problem: string | undefined): void => {
    // One that has not begun to listen is not held up.
    if (hasAnswered) longestMs = Math.max(longestMs, waitedMs())
    else if (problem === undefined) parentPort?.postMessage('answered')
    hasAnswered ||= problem === undefined
    failure = problem
    asked = undefined
    setTimeout(ask, Math.max(0, askEveryMs - (performance.now() - atMs)))
  }
  get({ host: '127.0.0.1', port, path: '/healthz', agent: connection }, (response) => {
    response.resume().once('end', () => done(undefined))
  }).once('error', (error) => done(error.message))
}

parentPort?.on('message', () => {
  parentPort?.postMessage({ longestMs: Math.max(longestMs, waitedMs()), failure })
})
ask()
