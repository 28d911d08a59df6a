import type { ServiceRef } from '../contract/commands.ts'
import type { ServiceView } from '../contract/service.ts'
import { VerbError } from './agent-session.ts'

/** `NAME` or `NAMESPACE/NAME` among what the agent shows. Throws VerbError. */
export function serviceNamed(text: string, services: readonly Pick<ServiceView, 'namespace' | 'name'>[]): ServiceRef {
  const slash = text.indexOf('/')
  const matches = services.filter(({ namespace, name }) =>
    slash === -1 ? name === text : namespace === text.slice(0, slash) && name === text.slice(slash + 1),
  )
  const [match, another] = matches
  if (match === undefined) {
    const known = services.map(({ namespace, name }) => `${namespace}/${name}`).join(', ')
    throw new VerbError(`There is no service ${text} on this machine; ${known ? `it has ${known}` : 'it has none'}.`)
  }
  if (another !== undefined) {
    const choices = matches.map(({ namespace, name }) => `${namespace}/${name}`).join(' or ')
    throw new VerbError(`Several services are called ${text}: say ${choices}.`)
  }
  return { namespace: match.namespace, name: match.name }
}
