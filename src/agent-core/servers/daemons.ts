import type { Daemon, DaemonAddress, DaemonRuntimeName, OwnDaemon } from './daemon.ts'
import { Ollama } from './ollama.ts'
import { Omlx } from './omlx.ts'

const daemons: Readonly<Record<DaemonRuntimeName, new (address: DaemonAddress, own?: OwnDaemon) => Daemon>> = {
  ollama: Ollama,
  omlx: Omlx,
}

/** How the daemon of a runtime is asked that listens there. `own`: of one that this agent may have started. */
export const daemonAt = (runtime: DaemonRuntimeName, address: DaemonAddress, own?: OwnDaemon): Daemon =>
  new daemons[runtime](address, own)
