import type { ServiceRef } from '../contract/commands.ts'
import type { ServiceView } from '../contract/service.ts'
import { VerbError } from './agent-session.ts'

/** `NAME`, with its namespace beside it where given, or `NAMESPACE/NAME`, among what the agent shows. Throws VerbError. */
export function serviceNamed(
  text: string,
  services: readonly Pick<ServiceView, 'namespace' | 'name'>[],
  given?: string,
): ServiceRef {
  const slash = text.indexOf('/')
  const inName = slash === -1 ? undefined : text.slice(0, slash)
  const called = text.slice(slash + 1)
  if (given !== undefined && inName !== undefined && inName !== given) {
    throw new VerbError(`The name ${text} and --namespace ${given} contradict each other: give one of them.`)
  }
  const wanted = inName ?? given
  const matches = services.filter(
    ({ namespace, name }) => name === called && (wanted === undefined || namespace === wanted),
  )
  const [match, another] = matches
  if (match === undefined) {
    const known = services.map(({ namespace, name }) => `${namespace}/${name}`).join(', ')
    const where = given !== undefined && inName === undefined ? ` in namespace ${given}` : ''
    throw new VerbError(
      `There is no service ${text}${where} on this machine; ${known ? `it has ${known}` : 'it has none'}.`,
    )
  }
  if (another !== undefined) {
    const choices = matches.map(({ namespace, name }) => `${namespace}/${name}`).join(' or ')
    throw new VerbError(`Several services are called ${text}: say ${choices}.`)
  }
  return { namespace: match.namespace, name: match.name }
}
