import type { Daemon, DaemonAddress, DaemonRuntimeName } from './daemon.ts'
import { Ollama } from './ollama.ts'
import { Omlx } from './omlx.ts'

const daemons: Readonly<Record<DaemonRuntimeName, new (address: DaemonAddress) => Daemon>> = {
  ollama: Ollama,
  omlx: Omlx,
}

/** How the daemon of a runtime is asked that listens there. */
export const daemonAt = (runtime: DaemonRuntimeName, address: DaemonAddress): Daemon => new daemons[runtime](address)
