import { childOf, isObject, itemsOf, type JsonObject, type KubeObject } from './json.ts'

export function fillServiceDefaults(service: KubeObject): void {
  const spec = ownChild(service, 'spec')
  spec['type'] ??= 'ClusterIP'
  spec['sessionAffinity'] ??= 'None'
  if (spec['type'] !== 'ExternalName') spec['internalTrafficPolicy'] ??= 'Cluster'
  for (const port of itemsOf(spec, 'ports').filter(isObject)) {
    port['protocol'] ??= 'TCP'
    if (port['port'] !== undefined) port['targetPort'] ??= port['port']
  }
}

/** The fields that the server sets when it gives a Service its address; no manager owns them. */
export function allocateClusterIp(
  service: KubeObject,
  before: KubeObject | undefined,
  nextAddress: () => string,
): void {
  const spec = ownChild(service, 'spec')
  service['status'] ??= { loadBalancer: {} }
  if (spec['type'] === 'ExternalName') return
  spec['clusterIP'] ??= childOf(before, 'spec')['clusterIP'] ?? nextAddress()
  spec['clusterIPs'] ??= [spec['clusterIP']]
  spec['ipFamilies'] ??= ['IPv4']
  spec['ipFamilyPolicy'] ??= 'SingleStack'
}

export function fillEndpointSliceDefaults(slice: KubeObject): void {
  // An empty list does not survive the way through etcd.
  for (const list of ['endpoints', 'ports']) if (itemsOf(slice, list).length === 0) slice[list] = null
  for (const port of itemsOf(slice, 'ports').filter(isObject)) {
    port['name'] ??= ''
    port['protocol'] ??= 'TCP'
  }
  for (const endpoint of itemsOf(slice, 'endpoints').filter(isObject)) endpoint['conditions'] ??= {}
}

export function fillEndpointsDefaults(endpoints: KubeObject): void {
  for (const subset of itemsOf(endpoints, 'subsets').filter(isObject)) {
    for (const port of itemsOf(subset, 'ports').filter(isObject)) port['protocol'] ??= 'TCP'
  }
}

/** `stringData` is write-only: what it says is read in `data`. */
export function fillSecretDefaults(secret: KubeObject): void {
  secret['type'] ??= 'Opaque'
  const data = ownChild(secret, 'data')
  for (const [key, text] of Object.entries(childOf(secret, 'stringData')))
    if (typeof text === 'string') data[key] = Buffer.from(text).toString('base64')
  delete secret['stringData']
}

function ownChild(parent: JsonObject, key: string): JsonObject {
  const child = parent[key]
  if (isObject(child)) return child
  const created: JsonObject = {}
  parent[key] = created
  return created
}
