import type { InferenceServiceSpec } from '../kube/resources.ts'

/** Variables of `spec.env` that carry their value; absent and empty are the same there. */
export const environmentOf = ({ env }: InferenceServiceSpec): Record<string, string> =>
  Object.fromEntries(env.flatMap(({ name, value = '', valueFrom }) => (valueFrom === undefined ? [[name, value]] : [])))

/**
 * What a person should know about variables that a server outside the cluster cannot have. It is started without them: LLMKube's Go
 * agent passes no variables at all, so what runs there has to run here.
 */
export function environmentNotice({ env }: InferenceServiceSpec): string | undefined {
  const names = env.flatMap(({ name, valueFrom }) => (valueFrom === undefined ? [] : [name]))
  if (names.length === 0) return undefined
  return `It runs without ${names.join(', ')} of spec.env, whose valueFrom only a Pod can read: give a literal value where it is needed.`
}
