import type { EndpointSlice, ObjectMeta, Service } from '../../../src/agent-core/kube/resources.ts'
import { parseEndpointSlice, parseService } from '../../../src/agent-core/kube/resources.ts'
import {
  type Publication,
  type PublishTarget,
  serviceBody,
  sliceBody,
} from '../../../src/agent-core/publishing/objects.ts'

export const target: PublishTarget = { namespace: 'ml', name: 'llama', uid: 'cr-1', endpointPort: undefined }

export const publication: Publication = {
  namespace: 'ml',
  name: 'llama',
  uid: 'cr-1',
  serviceName: 'llama',
  servicePorts: [{ name: 'http', port: 8080 }],
  published: { address: '192.0.2.7', port: 53211, ready: true },
  heartbeat: '2026-11-21T10:00:00Z',
  agentVersion: 'v1.2.3',
  annotations: {},
  claim: { node: 'node-a', epoch: 3, heartbeat: '2026-11-21T10:00:00Z', displayName: 'studio' },
}

export const sliceOf = (of: Publication, metadata: Partial<ObjectMeta> = {}): EndpointSlice =>
  stored(parseEndpointSlice, sliceBody(of), metadata)

export const serviceOf = (of: Publication, metadata: Partial<ObjectMeta> = {}): Service =>
  stored(parseService, serviceBody(of), metadata)

/** As the server would return what was posted. */
function stored<T extends { metadata: ObjectMeta }>(
  parse: (raw: unknown) => T,
  body: object,
  metadata: Partial<ObjectMeta>,
): T {
  const written = { metadata: {}, ...body }
  const object = parse({ ...written, metadata: { ...written.metadata, uid: 'object-1', resourceVersion: '7' } })
  return { ...object, metadata: { ...object.metadata, ...metadata } }
}
