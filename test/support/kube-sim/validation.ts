import ipaddr from 'ipaddr.js'
import { childOf, isObject, isSame, itemsOf, textOf, type Json, type KubeObject } from './json.ts'
import { fieldDuplicate, fieldInvalid, fieldRequired, fieldUnsupported, type FieldError } from './status-error.ts'

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

const protocols = ['SCTP', 'TCP', 'UDP']

export function validateServiceSpec(service: KubeObject, before: KubeObject | undefined): FieldError[] {
  const spec = childOf(service, 'spec')
  const ports = itemsOf(spec, 'ports')
  const errors: FieldError[] = []
  if (ports.length === 0 && spec['clusterIP'] !== 'None' && spec['type'] !== 'ExternalName') {
    errors.push(fieldRequired('spec.ports'))
  }
  const names = new Set<string>()
  ports.forEach((port, index) => {
    const at = `spec.ports[${index}]`
    const name = textOf(port, 'name') ?? ''
    if (name === '' && ports.length > 1) errors.push(fieldRequired(`${at}.name`))
    if (name !== '' && !labelFormat.test(name))
      errors.push(fieldInvalid(`${at}.name`, JSON.stringify(name), validateLabelName(name) ?? ''))
    if (name !== '' && names.has(name)) errors.push(fieldDuplicate(`${at}.name`, JSON.stringify(name)))
    names.add(name)
    errors.push(...portNumberErrors(`${at}.port`, isObject(port) ? port['port'] : undefined))
    errors.push(...protocolErrors(`${at}.protocol`, textOf(port, 'protocol')))
    const targetPort = isObject(port) ? port['targetPort'] : undefined
    if (typeof targetPort === 'number') errors.push(...portNumberErrors(`${at}.targetPort`, targetPort))
  })
  const address = childOf(before, 'spec')['clusterIP']
  if (address !== undefined && address !== spec['clusterIP']) {
    errors.push(fieldInvalid('spec.clusterIPs[0]', JSON.stringify(spec['clusterIP'] ?? ''), 'may not change once set'))
  }
  return errors
}

const addressTypes = ['FQDN', 'IPv4', 'IPv6']

export function validateEndpointSlice(slice: KubeObject, before: KubeObject | undefined): FieldError[] {
  const type = textOf(slice, 'addressType') ?? ''
  const errors: FieldError[] = []
  itemsOf(slice, 'endpoints').forEach((endpoint, index) => {
    const at = `endpoints[${index}]`
    const addresses = itemsOf(endpoint, 'addresses')
    if (addresses.length === 0) errors.push(fieldRequired(`${at}.addresses`, 'must contain at least 1 address'))
    addresses.forEach((address, place) => {
      errors.push(...sliceAddressErrors(`${at}.addresses[${place}]`, typeof address === 'string' ? address : '', type))
    })
  })
  if (type === '') errors.push(fieldRequired('addressType'))
  else if (!addressTypes.includes(type))
    errors.push(fieldUnsupported('addressType', JSON.stringify(type), addressTypes))
  const names = new Set<string>()
  itemsOf(slice, 'ports').forEach((port, index) => {
    const at = `ports[${index}]`
    const name = textOf(port, 'name') ?? ''
    if (name !== '' && !labelFormat.test(name))
      errors.push(fieldInvalid(`${at}.name`, JSON.stringify(name), validateLabelName(name) ?? ''))
    if (names.has(name)) errors.push(fieldDuplicate(`${at}.name`, JSON.stringify(name)))
    names.add(name)
    errors.push(...protocolErrors(`${at}.protocol`, textOf(port, 'protocol')))
  })
  if (before && !isSame(before['addressType'], slice['addressType'])) {
    errors.push(fieldInvalid('addressType', JSON.stringify(type), 'field is immutable'))
  }
  return errors
}

function sliceAddressErrors(field: string, address: string, type: string): FieldError[] {
  if (type === 'FQDN') {
    const why = validateSubdomain(address)
    return why === undefined ? [] : [fieldInvalid(field, JSON.stringify(address), why)]
  }
  if (!isIp(address)) return [notAnIp(field, address)]
  const family = ipaddr.parse(address).kind() === 'ipv4' ? 'IPv4' : 'IPv6'
  if ((type === 'IPv4' || type === 'IPv6') && family !== type) {
    return [fieldInvalid(field, JSON.stringify(address), `must be an ${type} address`)]
  }
  return specialAddressErrors(field, address)
}

const isIp = (address: string): boolean => ipaddr.IPv4.isValidFourPartDecimal(address) || ipaddr.IPv6.isValid(address)

const notAnIp = (field: string, address: string): FieldError =>
  fieldInvalid(field, JSON.stringify(address), 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)')

/** Addresses that mean "here" on whatever machine reads them: an endpoint may not have them. */
function specialAddressErrors(field: string, address: string): FieldError[] {
  const whyByRange: Record<string, string> = {
    unspecified: `may not be unspecified (${address})`,
    loopback: 'may not be in the loopback range (127.0.0.0/8, ::1/128)',
    linkLocal: 'may not be in the link-local range (169.254.0.0/16, fe80::/10)',
  }
  const parsed = ipaddr.parse(address)
  const why =
    address.startsWith('224.0.0.') || /^ff02:/i.test(address)
      ? 'may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)'
      : whyByRange[parsed.range()]
  return why === undefined ? [] : [fieldInvalid(field, JSON.stringify(address), why)]
}

export function validateEndpoints(endpoints: KubeObject): FieldError[] {
  return itemsOf(endpoints, 'subsets').flatMap((subset, index) => {
    const at = `subsets[${index}]`
    const ready = itemsOf(subset, 'addresses')
    const unready = itemsOf(subset, 'notReadyAddresses')
    const errors: FieldError[] = []
    if (ready.length + unready.length === 0)
      errors.push(fieldRequired(at, 'must specify `addresses` or `notReadyAddresses`'))
    const check = (addresses: readonly Json[], list: string) => {
      addresses.forEach((address, place) => {
        const ip = textOf(address, 'ip') ?? ''
        const field = `${at}.${list}[${place}].ip`
        errors.push(...(isIp(ip) ? specialAddressErrors(field, ip) : [notAnIp(field, ip)]))
      })
    }
    check(ready, 'addresses')
    check(unready, 'notReadyAddresses')
    const ports = itemsOf(subset, 'ports')
    ports.forEach((port, place) => {
      if ((textOf(port, 'name') ?? '') === '' && ports.length > 1)
        errors.push(fieldRequired(`${at}.ports[${place}].name`))
      errors.push(...portNumberErrors(`${at}.ports[${place}].port`, isObject(port) ? port['port'] : undefined))
    })
    return errors
  })
}

export function validateEvent(event: KubeObject): FieldError[] {
  const about = childOf(event, 'involvedObject')
  const namespace = textOf(about, 'namespace') ?? ''
  const own = event.metadata.namespace ?? ''
  if (namespace === own || (namespace === '' && own === 'default')) return []
  return [fieldInvalid('involvedObject.namespace', JSON.stringify(namespace), 'does not match event.namespace')]
}

function portNumberErrors(field: string, value: Json | undefined): FieldError[] {
  const port = typeof value === 'number' ? value : 0
  if (Number.isInteger(port) && port >= 1 && port <= 65_535) return []
  return [fieldInvalid(field, String(port), 'must be between 1 and 65535, inclusive')]
}

const protocolErrors = (field: string, protocol: string | undefined): FieldError[] =>
  protocol === undefined || protocols.includes(protocol)
    ? []
    : [fieldUnsupported(field, JSON.stringify(protocol), protocols)]
