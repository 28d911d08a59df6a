import type { InferenceServiceSpec } from '../kube/resources.ts'
import { judgeVariable, loadsCode } from '../runtimes/environment-policy.ts'

/** Variables of `spec.env` that carry their value, whether or not a server gets them; absent and empty are the same there. */
export const statedEnvironment = ({ env }: InferenceServiceSpec): Record<string, string> =>
  Object.fromEntries(env.flatMap(({ name, value = '', valueFrom }) => (valueFrom === undefined ? [[name, value]] : [])))

/** What a server gets of them. `allowed`: `--allowed-env`. */
export const environmentOf = (spec: InferenceServiceSpec, allowed: readonly string[]): Record<string, string> =>
  Object.fromEntries(
    Object.entries(statedEnvironment(spec)).filter(([name]) => judgeVariable(name, allowed) === 'passed'),
  )

interface EnvironmentRefusal {
  readonly message: string
  /** A server that was started with it may run programs for others. */
  readonly loadsCode: boolean
}

/** Undefined where every variable is one that a server may be given. */
export function environmentRefusal(spec: InferenceServiceSpec): EnvironmentRefusal | undefined {
  const names = Object.keys(statedEnvironment(spec)).filter((name) => judgeVariable(name, []) === 'never')
  if (names.length === 0) return undefined
  return {
    message: `spec.env: ${listed(names.map(shown))} can load code into the server, decide where it looks for files or stand for an argument, and is never passed on. Take it out.`,
    loadsCode: names.some(loadsCode),
  }
}

/**
 * What a person should know about variables that a server here does not get. It is started without them: LLMKube's Go agent passes
 * no variables at all, so what runs there has to run here.
 */
export function environmentNotice({ env }: InferenceServiceSpec, allowed: readonly string[]): string | undefined {
  const fromPod = env.flatMap(({ name, valueFrom }) => (valueFrom === undefined ? [] : [shown(name)]))
  const notAllowed = env.flatMap(({ name, valueFrom }) =>
    valueFrom === undefined && judgeVariable(name, allowed) === 'leftOut' ? [shown(name)] : [],
  )
  const sentences = [
    ...(fromPod.length === 0
      ? []
      : [
          `It runs without ${listed(fromPod)} of spec.env, whose valueFrom only a Pod can read: give a literal value where it is needed.`,
        ]),
    ...(notAllowed.length === 0
      ? []
      : [
          `It runs without ${listed(notAllowed)} of spec.env: this machine allows variables by name, with --allowed-env.`,
        ]),
  ]
  return sentences.length === 0 ? undefined : sentences.join(' ')
}

const maxListed = 5
const maxNameLength = 60

const shown = (name: string): string => (name.length <= maxNameLength ? name : `${name.slice(0, maxNameLength)}…`)

const listed = (names: readonly string[]): string =>
  names.length <= maxListed
    ? names.join(', ')
    : `${names.slice(0, maxListed).join(', ')} and ${names.length - maxListed} more`
