import { llamaServerPart } from '../../tasks/setup/llama-server.ts'

/** The real llama-server of this machine, or in one sentence why there is none. */
export function findLlamaServer(): { readonly path: string } | { readonly missing: string } {
  const found = llamaServerPart.find()
  return found.found ? { path: found.path } : { missing: found.reason }
}
