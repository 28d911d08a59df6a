import { childOf, textOf, type KubeObject } from './json.ts'
import { fieldInvalid, type FieldError } from './status-error.ts'

const labelFormat = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/
const subdomainFormat = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const labelLength = 63
const subdomainLength = 253

/** What is wrong with a name that must be one DNS label (RFC 1123); a Service's may start with a digit since 1.36. */
export function validateLabelName(name: string): string | undefined {
  if (name.length > labelLength) return `must be no more than ${labelLength} characters`
  if (labelFormat.test(name)) return undefined
  return "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
}

export function validateSubdomain(name: string): string | undefined {
  if (name.length > subdomainLength) return `must be no more than ${subdomainLength} characters`
  if (subdomainFormat.test(name)) return undefined
  return "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
}

export function validateEvent(event: KubeObject): FieldError[] {
  const about = childOf(event, 'involvedObject')
  const namespace = textOf(about, 'namespace') ?? ''
  const own = event.metadata.namespace ?? ''
  if (namespace === own || (namespace === '' && own === 'default')) return []
  return [fieldInvalid('involvedObject.namespace', JSON.stringify(namespace), 'does not match event.namespace')]
}
