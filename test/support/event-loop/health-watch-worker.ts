// Asks an agent's `/healthz` on a thread of its own, which the test's work does not delay.
import { readFileSync } from 'node:fs'
import { Agent, get } from 'node:http'
import { parentPort, workerData } from 'node:worker_threads'
import { z } from 'zod'

const askEveryMs = 50
/** Between two measurements of the machine, so that they take a fortieth of a processor. */
const calibrateEveryMs = 1_000
const { pid, port } = z.object({ pid: z.number(), port: z.number() }).parse(workerData)
const connection = new Agent({ keepAlive: true, maxSockets: 1 })

let longestMs = 0
let unitMs = 0
let calibratedAt = -Infinity
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

/** The unit of a wait: the processor time of a fixed computation, the slowest so far; some 25 ms on a machine of these years. */
function calibrate(): void {
  if (performance.now() - calibratedAt < calibrateEveryMs) return
  const before = process.threadCpuUsage()
  let value = 1
  for (let at = 0; at < 20_000_000; at += 1) value = (Math.imul(value, 1_664_525) + 1_013_904_223) | 0
  const { user, system } = process.threadCpuUsage(before)
  calibratedAt = performance.now()
  // The value is used, so that no compiler leaves the computation out.
  if (value !== 0) unitMs = Math.max(unitMs, (user + system) / 1_000)
}

function ask(): void {
  calibrate()
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
  parentPort?.postMessage({ longest: Math.max(longestMs, waitedMs()) / unitMs, failure })
})
ask()
