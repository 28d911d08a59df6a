import { execFileSync } from 'node:child_process'
import { beforeEach } from 'vitest'
import { onPath } from '../../tasks/setup/tools.ts'
import { llamaServerPart } from '../../tasks/setup/llama-server.ts'
import { kubectlPart } from '../../tasks/setup/kubectl.ts'
import { mlxLmPart } from '../../tasks/setup/mlx-lm.ts'
import { ollamaPart } from '../../tasks/setup/ollama.ts'
import { clientsPart } from '../../tasks/setup/clients.ts'
import { smallEnginePart, smallModelPart } from '../../tasks/setup/small-parts.ts'
import type { Part } from '../../tasks/setup/part.ts'

/**
 * Skips the file's (or the describe block's) tests when `missing` says in one sentence what this machine lacks; the
 * sentence is listed at the end of the run. Hooks of the block still run.
 */
export function skipWhen(missing: string | undefined): void {
  beforeEach((context) => {
    if (missing !== undefined) context.skip(missing)
  })
}

/** Which of these programs are not in the PATH; undefined where all are. */
export function missingPrograms(...programs: readonly string[]): string | undefined {
  const missing = programs.filter((program) => onPath(program) === undefined)
  return missing.length === 0 ? undefined : `there is no ${missing.join(' and no ')}`
}

/** @returns the path of the real llama-server; where there is none the block's tests are skipped and it is empty. */
export const useLlamaServer = (): string => usePart(llamaServerPart)

/** The same for the real kubectl. */
export const useKubectl = (): string => usePart(kubectlPart)

/** The same for the real mlx_lm.server. */
export const useMlxLm = (): string => usePart(mlxLmPart)

/** The same for the real Ollama. */
export const useOllama = (): string => usePart(ollamaPart)

/** The same for llama.cpp's server as optimised for this processor, and for a real model that it answers with in a second. */
export const useSmallEngine = (): string => usePart(smallEnginePart)
export const useSmallModel = (): string => usePart(smallModelPart)

/** A Python that has the clients of OpenAI, Anthropic and LiteLLM. */
export const useClients = (): string => usePart(clientsPart)

function usePart(part: Part): string {
  const found = part.find()
  if (found.found) return found.path
  skipWhen(found.reason)
  return ''
}

/** Why no network namespace can be made here; undefined when one can. */
export function missingNetworkNamespaces(): string | undefined {
  const ip = onPath('ip')
  if (process.platform !== 'linux' || process.getuid?.() !== 0 || ip === undefined) {
    return 'network namespaces need Linux, root and the command `ip` (iproute2)'
  }
  const name = `metalbar-probe-${process.pid}`
  try {
    execFileSync(ip, ['netns', 'add', name], { stdio: 'pipe' })
    execFileSync(ip, ['netns', 'delete', name], { stdio: 'pipe' })
    return undefined
  } catch (error) {
    return `network namespaces are not allowed here: ${error instanceof Error ? error.message : String(error)}`
  }
}
