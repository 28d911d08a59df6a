import type { AgentLink } from '../../../src/contract/client.ts'
import type { AgentDoor } from '../../../src/serve/agent-door.ts'

/** An agent's door at one end and what a client has of it at the other. */
export interface RunningCarrier extends AsyncDisposable {
  readonly link: AgentLink
  /** What the agent's side said of defects. */
  readonly errors: readonly unknown[]
  /** The agent's side ends. */
  end(): Promise<void>
}

export interface Carrier {
  readonly name: string
  /** As in `trustOf`: what a page may not ask for reaches no agent. */
  readonly trust: 'page' | 'shell'
  readonly start: (door: AgentDoor) => Promise<RunningCarrier>
}
