import type { ServerRuntime } from '../servers/probe.ts'
import { llamaServerRuntime } from './llama-server.ts'
import { mlxLmRuntime } from './mlx-lm.ts'
import type { ProcessRuntime } from './runtime.ts'

/** Adding a runtime: its file here, its line in this table, and how its servers are asked in `servers/probe.ts`. */
export const runtimes: Readonly<Record<ServerRuntime, ProcessRuntime>> = {
  'llama-server': llamaServerRuntime,
  'mlx-lm': mlxLmRuntime,
}
