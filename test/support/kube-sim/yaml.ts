import { loadYaml } from '@kubernetes/client-node'
import { z } from 'zod'
import type { Json } from './json.ts'

const wrapped = z.object({ document: z.custom<Json>((value) => value !== undefined) })

/**
 * One YAML document as it is written. client-node's loader renames members of the kinds it knows (`default` becomes `_default`), but not
 * below a key it does not know. Throws where it is no YAML.
 */
export function parseYaml(text: string): Json {
  return wrapped.parse(loadYaml(`document:\n${text.replaceAll(/^/gm, '  ')}`)).document
}
