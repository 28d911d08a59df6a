import type { ServerRuntime } from '../servers/probe.ts'
import { llamaServerRuntime } from './llama-server.ts'
import { mlxLmRuntime } from './mlx-lm.ts'
import { mlxServerRuntime } from './mlx-server.ts'
import type { ProcessRuntime } from './runtime.ts'
import { tensorfoldRuntime } from './tensorfold.ts'
import { vllmSwiftRuntime } from './vllm-swift.ts'

/** Adding a runtime: its file here, its line in this table, and how its servers are asked in `servers/probe.ts`. */
export const runtimes: Readonly<Record<ServerRuntime, ProcessRuntime>> = {
  'llama-server': llamaServerRuntime,
  'mlx-lm': mlxLmRuntime,
  'mlx-server': mlxServerRuntime,
  'vllm-swift': vllmSwiftRuntime,
  tensorfold: tensorfoldRuntime,
}
