import type { DaemonRuntimeName } from '../servers/daemon.ts'
import type { ProcessRuntimeName } from '../servers/probe.ts'
import { llamaServerRuntime } from './llama-server.ts'
import { mlxLmRuntime } from './mlx-lm.ts'
import { mlxServerRuntime } from './mlx-server.ts'
import { ollamaRuntime } from './ollama.ts'
import { omlxRuntime } from './omlx.ts'
import type { DaemonRuntime, ProcessRuntime } from './runtime.ts'
import { tensorfoldRuntime } from './tensorfold.ts'
import { vllmSwiftRuntime } from './vllm-swift.ts'

/** Adding a runtime: its file here, its line in this table, and how its servers are asked in `servers/probe.ts` or `servers/daemon.ts`. */
export const runtimes: Readonly<Record<ProcessRuntimeName, ProcessRuntime> & Record<DaemonRuntimeName, DaemonRuntime>> =
  {
    'llama-server': llamaServerRuntime,
    'mlx-lm': mlxLmRuntime,
    'mlx-server': mlxServerRuntime,
    'vllm-swift': vllmSwiftRuntime,
    tensorfold: tensorfoldRuntime,
    ollama: ollamaRuntime,
    omlx: omlxRuntime,
  }
