/** The agent of a state folder, as far as its service has to know; the one who installs looks it up. */
export interface Agents {
  /** Undefined where none answers. Takes no longer than a few seconds. */
  look(stateDir: string): Promise<AgentLook | undefined>
  /** Has it end and its servers go on; `silent` where none answers. One sentence where it refuses. */
  leave(stateDir: string): Promise<'leaves' | 'silent' | { readonly refused: string }>
}

export interface AgentLook {
  /** Who has the lock of the state folder. */
  readonly pid: number | undefined
  readonly version: string
  readonly startedAt: string
  /** Of the model servers that it has now. */
  readonly serverPids: readonly number[]
  /** The services that have one, as namespace/name. */
  readonly serving: readonly string[]
}
