import { modelHeaders } from './model-headers.ts'
import type { Group } from './row.ts'

/** Getting models and looking at them. */
export const models: Group = {
  name: 'models',
  measure: async (_, extent) => [...(await modelHeaders(extent))],
}
