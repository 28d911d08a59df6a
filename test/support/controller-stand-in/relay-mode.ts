import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { heartbeatExpiryMs, serviceName } from './inference-service-status.ts'
import type { KubeHttp, KubeRequest } from './kube-http.ts'
import type { EndpointSlice, InferenceService } from './objects.ts'

/** A relay as the controller has it run. */
export interface Relay {
  readonly namespace: string
  readonly name: string
  readonly pin: string
  readonly token: string
}

export interface RelayModeOptions {
  readonly http: KubeHttp
  readonly signal: AbortSignal
  readonly service: InferenceService
  /** All of the namespace. */
  readonly slices: readonly EndpointSlice[]
  readonly nowMs: number
  /** Where the Pod of a relay answers; undefined where none is ready. */
  readonly pod: (relay: Relay) => Promise<{ readonly address: string; readonly port: number } | undefined>
}

const managedBy = 'llmkube.ai/managed-by'
const object = z.looseObject({
  metadata: z.looseObject({
    labels: z.record(z.string(), z.string()).default({}),
    annotations: z.record(z.string(), z.string()).default({}),
    ownerReferences: z.array(z.looseObject({ uid: z.string(), controller: z.boolean().optional() })).default([]),
  }),
  spec: z.record(z.string(), z.unknown()).default({}),
  data: z.record(z.string(), z.string()).default({}),
})
type KubeObject = z.infer<typeof object>

/**
 * What LLMKube 0.10's controller does for a metal service (its contract, section 6): decides the mode, and in relay mode keeps Secret, Deployment
 * and Service. What Kubernetes itself would do, a Pod for the Deployment and an EndpointSlice for the Pod, is done here too.
 *
 * @returns the slices that count for the status of the service.
 */
export async function relayMode(options: RelayModeOptions): Promise<readonly EndpointSlice[]> {
  const { service, slices, http, signal, nowMs, pod } = options
  const { namespace, name } = service.metadata
  const san = serviceName(service)
  const kube = new Objects({ http, signal, namespace })
  const own = slices.filter(({ metadata }) => metadata.labels?.[managedBy] === 'metal-agent')
  const fresh = own.filter((slice) => nowMs - heartbeatOf(slice) <= heartbeatExpiryMs)
  const agent = fresh.find(({ metadata }) => metadata.name === `${san}-agent`)
  const direct = fresh.find(({ metadata }) => metadata.name === san)
  const deployment = await kube.get('apps/v1', 'deployments', `${san}-relay`)
  const pin = pinOf(agent) ?? (direct ? undefined : deployedPin(deployment))
  if (pin === undefined) {
    if (deployment) await kube.delete('apps/v1', 'deployments', `${san}-relay`)
    await kube.delete('discovery.k8s.io/v1', 'endpointslices', `${san}-relay`)
    return slices.filter(({ metadata }) => metadata.labels?.['kubernetes.io/service-name'] === san)
  }
  const token = await kube.secret()
  if (deployedPin(deployment) !== pin)
    await kube.put('apps/v1', 'deployments', relayDeployment(service, pin), deployment)
  await adopt(kube, service)
  const answers = await pod({ namespace, name, pin, token })
  await kube.put('discovery.k8s.io/v1', 'endpointslices', podSlice(san, name, answers), undefined)
  return agent && answers ? [agent] : []
}

const heartbeatOf = ({ metadata }: EndpointSlice): number =>
  Date.parse(metadata.annotations?.['llmkube.ai/agent-heartbeat'] ?? '') || -Infinity

const pinOf = (slice: EndpointSlice | undefined): string | undefined => {
  const pin = slice?.metadata.annotations?.['llmkube.ai/agent-ingress-spki']
  return pin !== undefined && Buffer.from(pin, 'base64').length === 32 ? pin : undefined
}

const deployedPin = (deployment: KubeObject | undefined): string | undefined =>
  deployment?.metadata.annotations['relay-pin']

/** The Service is clients' way to the relay from now on; a foreign one is left alone. */
async function adopt(kube: Objects, service: InferenceService): Promise<void> {
  const { name, uid } = service.metadata
  const san = serviceName(service)
  const known = await kube.get('v1', 'services', san)
  const isOurs = known?.metadata.ownerReferences.some((owner) => owner.controller === true && owner.uid === uid)
  if (known && isOurs !== true && known.metadata.labels[managedBy] !== 'metal-agent') return
  const port = service.spec.endpoint?.port ?? 8080
  const { [managedBy]: _, ...labels } = known?.metadata.labels ?? {}
  const body = {
    ...known,
    metadata: { ...known?.metadata, name: san, labels, ownerReferences: [ownerOf(service)] },
    spec: {
      ...known?.spec,
      selector: { app: `${san}-relay`, 'inference.llmkube.dev/metal-relay': name },
      ports: [{ name: 'http', port, targetPort: 8080, protocol: 'TCP' }],
    },
  }
  await kube.put('v1', 'services', body, known)
}

const ownerOf = ({ metadata: { name, uid } }: InferenceService) => ({
  ...{ apiVersion: 'inference.llmkube.dev/v1alpha1', kind: 'InferenceService', name, uid },
  ...{ controller: true, blockOwnerDeletion: true },
})

function relayDeployment(service: InferenceService, pin: string) {
  const { namespace, name } = service.metadata
  const san = serviceName(service)
  const labels = { app: `${san}-relay`, 'inference.llmkube.dev/metal-relay': name }
  const env = [
    { name: 'RELAY_TARGET', value: `${namespace}/${name}` },
    { name: 'RELAY_UPSTREAM', value: `https://${san}-agent.${namespace}.svc:8443` },
    { name: 'RELAY_SPKI_PIN', value: pin },
  ]
  return {
    metadata: {
      name: `${san}-relay`,
      labels,
      annotations: { 'relay-pin': pin },
      ownerReferences: [ownerOf(service)],
    },
    spec: {
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: 'relay', image: 'router-proxy', env }] } },
    },
  }
}

/** Kubernetes gives it the labels of the Service. */
const podSlice = (
  san: string,
  name: string,
  answers: { readonly address: string; readonly port: number } | undefined,
) => ({
  metadata: {
    name: `${san}-relay`,
    labels: {
      'kubernetes.io/service-name': san,
      'llmkube.ai/inference-service': name,
      'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
    },
  },
  addressType: 'IPv4',
  endpoints: answers ? [{ addresses: [answers.address], conditions: { ready: true } }] : [],
  ports: answers ? [{ name: 'http', port: answers.port, protocol: 'TCP' }] : [],
})

/** Objects of one namespace as the controller reads and writes them. */
class Objects {
  readonly #options: { readonly http: KubeHttp; readonly signal: AbortSignal; readonly namespace: string }

  constructor(options: { readonly http: KubeHttp; readonly signal: AbortSignal; readonly namespace: string }) {
    this.#options = options
  }

  async get(group: string, plural: string, name: string): Promise<KubeObject | undefined> {
    const { status, body } = await this.#ask('GET', `${this.#path(group, plural)}/${name}`)
    return status === 200 ? object.parse(body) : undefined
  }

  async put(
    group: string,
    plural: string,
    body: { readonly metadata: { readonly name: string } },
    known: KubeObject | undefined,
  ): Promise<void> {
    const path = this.#path(group, plural)
    const made = known ? undefined : await this.#ask('POST', path, body)
    if (made && made.status !== 409) return
    const now = known ?? (await this.get(group, plural, body.metadata.name))
    const metadata = { ...now?.metadata, ...body.metadata }
    await this.#ask('PUT', `${path}/${body.metadata.name}`, { ...body, metadata })
  }

  async delete(group: string, plural: string, name: string): Promise<void> {
    await this.#ask('DELETE', `${this.#path(group, plural)}/${name}`)
  }

  /** The token of the relays of this namespace. */
  async secret(): Promise<string> {
    const name = 'llmkube-metal-relay'
    const known = await this.get('v1', 'secrets', name)
    if (known) return Buffer.from(known.data['token'] ?? '', 'base64').toString()
    const token = randomBytes(32).toString('hex')
    const labels = { [managedBy]: 'llmkube-controller' }
    await this.#ask('POST', this.#path('v1', 'secrets'), { metadata: { name, labels }, stringData: { token } })
    return token
  }

  #path(group: string, plural: string): string {
    return `${group === 'v1' ? '/api/v1' : `/apis/${group}`}/namespaces/${this.#options.namespace}/${plural}`
  }

  #ask(method: NonNullable<KubeRequest['method']>, path: string, body?: object) {
    const { http, signal } = this.#options
    const separator = path.includes('?') ? '&' : '?'
    return http.request({
      method,
      path: method === 'GET' ? path : `${path}${separator}fieldManager=llmkube-controller`,
      ...(body && { body }),
      signal,
    })
  }
}
