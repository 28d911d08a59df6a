import { randomUUID } from 'node:crypto'
import type { Agent } from '../../src/agent-core/agent/agent.ts'
import type { LogFields, Logger } from '../../src/agent-core/observability/logger.ts'
import { command, type CommandInput, type CommandResult } from '../../src/contract/commands.ts'
import type { ServiceView } from '../../src/contract/service.ts'
import type { AgentSnapshot } from '../../src/contract/snapshot.ts'
import { untilAsAnswered } from './as-answered.ts'
import { eventually } from './eventually.ts'

/** Generous: the machine may run many other tests beside this one. */
export const patienceMs = 40_000

/** An agent in this process, and what a person would see of it. */
export class RunningAgent {
  readonly agent: Agent
  readonly stateDir: string
  readonly kubeconfig: string
  readonly log: Recorder
  readonly #namespace: string

  constructor(
    agent: Agent,
    facts: {
      readonly namespace: string
      readonly log: Recorder
      readonly stateDir: string
      readonly kubeconfig: string
    },
  ) {
    this.agent = agent
    this.#namespace = facts.namespace
    this.log = facts.log
    this.stateDir = facts.stateDir
    this.kubeconfig = facts.kubeconfig
  }

  get snapshot(): AgentSnapshot {
    return this.agent.snapshot()
  }

  view(name: string, namespace = this.#namespace): ServiceView | undefined {
    return this.snapshot.services.find((service) => service.name === name && service.namespace === namespace)
  }

  /** Waits until the service's view is as said. */
  async until(
    name: string,
    wanted: ServiceView['state'] | ((view: ServiceView) => boolean),
    namespace = this.#namespace,
  ): Promise<ServiceView> {
    const isSo = typeof wanted === 'string' ? ({ state }: ServiceView) => state === wanted : wanted
    return eventually(
      () => {
        const view = this.view(name, namespace)
        if (view && isSo(view)) return view
        throw new Error(view ? `${name} is ${view.state} (${view.reason}): ${view.message}` : `${name} is not shown`)
      },
      { timeoutMs: patienceMs, what: `${name} ${typeof wanted === 'string' ? wanted : 'as expected'}` },
    )
  }

  /** Ready, with its process, port and address. */
  async untilReady(name: string, namespace = this.#namespace): Promise<ReadyView> {
    return readyView(await this.until(name, 'ready', namespace))
  }

  /** Ready with another process than `pid`. */
  async untilReadyAgain(name: string, pid: number): Promise<ReadyView> {
    return readyView(await this.until(name, (view) => view.state === 'ready' && view.pid !== pid))
  }

  async untilNotShown(name: string): Promise<void> {
    await eventually(() => this.view(name) === undefined, { timeoutMs: patienceMs, what: `${name} to be forgotten` })
  }

  async untilCluster(state: AgentSnapshot['cluster']['state']): Promise<AgentSnapshot['cluster']> {
    return eventually(
      () => {
        const { cluster } = this.snapshot
        if (cluster.state === state) return cluster
        throw new Error(`${cluster.state}: ${cluster.message}`)
      },
      { timeoutMs: patienceMs, what: `the cluster ${state}` },
    )
  }

  /** How many servers this agent has started, whatever became of them. */
  get starts(): number {
    return this.log.infos.filter(({ message }) => message === 'started inference service').length
  }

  /** What is answered as done has to be seen. */
  async command(input: CommandInput, requestId = randomUUID()): Promise<CommandResult> {
    const asked = command.parse(input)
    const result = await this.agent.command({ requestId, command: asked })
    if (result.outcome === 'done') await untilAsAnswered(this, asked, result.message)
    return result
  }

  stop(): Promise<void> {
    return this.agent.stop()
  }

  /** Ends it, and leaves what it serves to its next start. */
  leave(): Promise<void> {
    return this.agent.stop({ servers: 'keep' })
  }
}

type ReadyView = ServiceView & { readonly pid: number; readonly port: number; readonly address: string }

function readyView(view: ServiceView): ReadyView {
  const { pid, port, address } = view
  if (pid === undefined || port === undefined || address === undefined) {
    throw new Error(`${view.name} is ready without a process or an address.`)
  }
  return { ...view, pid, port, address }
}

interface Line {
  readonly message: string
  readonly fields: LogFields
}

/** Keeps what was logged. */
export class Recorder implements Logger {
  readonly infos: Line[] = []
  readonly warnings: Line[] = []

  debug(): void {
    // The tests do not use these.
  }

  info(message: string, fields: LogFields = {}): void {
    this.infos.push({ message, fields })
  }

  warn(message: string, fields: LogFields = {}): void {
    this.warnings.push({ message, fields })
  }

  error(message: string, fields: LogFields = {}): void {
    this.warnings.push({ message, fields })
  }
}
