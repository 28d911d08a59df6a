import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { z } from 'zod'
import { AgentProcess, type AgentProcessOptions } from '../agent-process.ts'
import { freePort } from '../free-port.ts'

/**
 * Whatever strangers write, nobody waits longer for the agent, in units of a fixed computation on the same machine, see the worker: some
 * 600 ms. Where ten programs share a core its garbage collection, whose threads wait for a processor each, takes up to sixteen.
 */
export const maxHeld = 25

/**
 * Asks `/healthz` of a running agent every 50 ms and keeps the longest wait for an answer. Time in which the machine gave the agent or
 * the asking thread no processor does not count (on Linux, where the kernel tells), so that a busy machine is not taken for a held agent.
 *
 *     await using watched = await watchedAgent({ kubeconfig, args })
 *     … the attack …
 *     expect(await watched.health.longest()).toBeLessThan(maxHeld)
 */
export class HealthWatch implements AsyncDisposable {
  readonly #worker: Worker

  private constructor(worker: Worker) {
    this.#worker = worker
  }

  /** Waits for the first answer; waits count from then on. */
  static async start(agent: { readonly pid: number; readonly port: number }): Promise<HealthWatch> {
    const worker = new Worker(new URL('health-watch-worker.ts', import.meta.url), { workerData: agent, execArgv: [] })
    await once(worker, 'message')
    return new HealthWatch(worker)
  }

  /** The longest wait since the start in units, that of a question without an answer yet among them. Rejects where the last one failed. */
  async longest(): Promise<number> {
    const answer = once(this.#worker, 'message')
    this.#worker.postMessage('report')
    const { longest, failure } = report.parse((await answer)[0])
    if (failure !== undefined) throw new Error(`/healthz is not answered: ${failure}`)
    return longest
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate()
  }
}

/** An agent and the watch of its `/healthz`, which begins once `isUp`; default: once a cluster is watched. */
export async function watchedAgent({
  isUp = (agent) => agent.shows(({ cluster }) => cluster.state === 'live', 'a cluster that is watched'),
  ...options
}: AgentProcessOptions & { readonly isUp?: (agent: AgentProcess) => Promise<unknown> }) {
  await using stack = new AsyncDisposableStack()
  const port = await freePort()
  const args = [...(options.args ?? []), '--port', String(port)]
  const agent = stack.use(await AgentProcess.start({ ...options, args }))
  await isUp(agent)
  const health = stack.use(await HealthWatch.start({ pid: agent.pid, port }))
  const owned = stack.move()
  return { agent, health, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

const report = z.object({ longest: z.number(), failure: z.string().optional() })
