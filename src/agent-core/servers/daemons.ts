import type { Daemon, DaemonAddress, DaemonRuntimeName } from './daemon.ts'
import { Ollama } from './ollama.ts'
import { Omlx } from './omlx.ts'

const daemons: Readonly<Record<DaemonRuntimeName, new (address: DaemonAddress, home?: string) => Daemon>> = {
  ollama: Ollama,
  omlx: Omlx,
}

/** How the daemon of a runtime is asked that listens there. `home`: the folder of one that this agent started. */
export const daemonAt = (runtime: DaemonRuntimeName, address: DaemonAddress, home?: string): Daemon =>
  new daemons[runtime](address, home)
