import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { socketPathFor } from '../src/agent-core/state/socket-path.ts'
import { LinkError } from '../src/contract/client.ts'
import type { AgentSnapshot } from '../src/contract/snapshot.ts'
import { connectToAgent, type AgentClient } from '../src/serve/client/agent-client.ts'
import { sampleServerPath } from '../test/support/sample-servers/sample.ts'
import { poll, secondsSince } from './poll.ts'
import { childrenOf, commandLineOf } from './proc.ts'
import { freePort } from '../test/support/free-port.ts'

/** Of the block that is set apart for examples: published, and never asked. */
const publishedAddress = '192.0.2.10'

export interface AgentProcessOptions {
  readonly launcher: string
  readonly kubeconfig: string
  readonly namespace: string
  /** State, models and log; a second agent on the same folder is the same node. */
  readonly folder: string
}

/** The agent as people run it: the launcher's process, seen from outside alone. */
export class AgentProcess implements AsyncDisposable {
  readonly pid: number
  readonly startedAt: number
  readonly #process: ChildProcess
  readonly #port: number
  readonly #stateDir: string
  readonly #logFile: string

  private constructor(child: ChildProcess, startedAt: number, port: number, stateDir: string, logFile: string) {
    this.#process = child
    this.pid = child.pid ?? 0
    this.startedAt = startedAt
    this.#port = port
    this.#stateDir = stateDir
    this.#logFile = logFile
  }

  static async start({ launcher, kubeconfig, namespace, folder }: AgentProcessOptions): Promise<AgentProcess> {
    const port = await freePort()
    const [stateDir, logFile] = [join(folder, 'state'), join(folder, 'agent.log')]
    const log = openSync(logFile, 'a')
    const startedAt = performance.now()
    const child = spawn(
      launcher,
      [
        ...['--kubeconfig', kubeconfig, '--namespace', namespace, '--host-ip', publishedAddress],
        ...['--state-dir', stateDir, '--model-store', join(folder, 'models')],
        ...['--port', String(port), '--client-port', '0'],
        ...['--llama-server', sampleServerPath, '--allow-unsafe-extra-args', '--allowed-model-roots', dirname(folder)],
        ...['--allowed-download-hosts', '127.0.0.1'],
      ],
      { stdio: ['ignore', log, log] },
    )
    closeSync(log)
    const agent = new AgentProcess(child, startedAt, port, stateDir, logFile)
    if (child.pid === undefined) await once(child, 'spawn')
    return agent
  }

  /** Seconds from its start until it says of itself that it is ready. */
  async ready(): Promise<number> {
    await poll('the agent says that it is ready', async () => {
      this.#ensureRunning()
      const answer = await fetch(`http://127.0.0.1:${this.#port}/readyz`).catch(() => undefined)
      await answer?.body?.cancel()
      return answer?.ok === true ? true : undefined
    })
    return secondsSince(this.startedAt)
  }

  connect(): Promise<AgentClient> {
    return connectToAgent({ socketPath: socketPathFor(this.#stateDir, tmpdir()), stateDir: this.#stateDir })
  }

  async snapshot(): Promise<AgentSnapshot> {
    this.#ensureRunning()
    await using client = await this.connect()
    return await client.snapshot()
  }

  /** Undefined while the agent does not listen yet. */
  async snapshotIfThere(): Promise<AgentSnapshot | undefined> {
    try {
      return await this.snapshot()
    } catch (error) {
      if (error instanceof LinkError && error.code === 'gone') return undefined
      throw error
    }
  }

  /** As the kernel does when memory is short: child processes are left behind. */
  async kill(): Promise<void> {
    const exited = once(this.#process, 'exit')
    this.#process.kill('SIGKILL')
    await exited
  }

  /** Process ids of the model servers; the agent's other children only answer what they understand. */
  servers(): number[] {
    return childrenOf(this.pid).filter((pid) => commandLineOf(pid).includes('--sample-script'))
  }

  /** The id of a server that is none of `known`, as soon as there is one. */
  newServer(known: readonly number[] = []): Promise<number> {
    return poll('a server is started', () => {
      this.#ensureRunning()
      return this.servers().find((pid) => !known.includes(pid))
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#runs()) return
    const exited = once(this.#process, 'exit')
    this.#process.kill('SIGTERM')
    await exited
  }

  #runs(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null
  }

  #ensureRunning(): void {
    if (this.#runs()) return
    const log = readFileSync(this.#logFile, 'utf8').trimEnd().split('\n').slice(-20).join('\n')
    throw new Error(`The agent has ended by itself:\n${log}`)
  }
}
