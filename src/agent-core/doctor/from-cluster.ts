import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { type ApiError, isApiError, isDecision } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import { objectMeta, resources } from '../kube/resources.ts'
import { pause } from '../util/pause.ts'
import { addressAndPort } from '../../contract/addresses.ts'
import { sentence } from '../../contract/clean-text.ts'
import type { FromClusterView } from '../../contract/doctor.ts'

/** Pulling a small image takes some seconds, and each dial of the Pod five at most. */
const probeLimitMs = 60_000
const lookEveryMs = 500
/** The time for one dial inside the Pod; wget of BusyBox takes whole seconds. */
const dialSeconds = 5
const deleteLimitMs = 5_000
const maxSaidBytes = 600

/** What is asked for from inside the cluster. */
export interface ProbeTarget {
  readonly namespace: string
  /** The name of the InferenceService, which becomes the owner of the Pod. */
  readonly name: string
  readonly uid: string
  readonly serviceName: string
  readonly servicePort: number
  /** Where the server or the gateway listens. */
  readonly address: string
  readonly port: number
}

export interface ProbeOptions {
  readonly api: KubeApi
  /** Any image that has `sh` and `wget`. */
  readonly image: string
  readonly signal: AbortSignal
  readonly limitMs?: number
}

/**
 * Dials the Service and the address by themselves, and writes both answers where the kubelet reads them. GNU's wget tries twenty times unless it is
 * told otherwise, which that of BusyBox does not understand.
 */
const script = `
dial() {
  out=$(wget -T ${dialSeconds} -t 1 -O /dev/null "$1" 2>&1); code=$?
  case "$out" in *"unrecognized option"*|*"invalid option"*) out=$(wget -T ${dialSeconds} -O /dev/null "$1" 2>&1); code=$? ;; esac
  echo "$2 $code $(echo "$out" | tr '\\n' ' ' | tail -c 400)"
}
{ dial "$SERVICE_URL" service; dial "$ADDRESS_URL" address; } > /dev/termination-log
`

/** The Pod has no rights, token, capabilities or disk that it could write to, and its deadline ends it. Pure. */
export function probePod(target: ProbeTarget, image: string, name: string): object {
  const { namespace, uid, serviceName, servicePort, address, port } = target
  const env = [
    { name: 'SERVICE_URL', value: `http://${serviceName}.${namespace}:${servicePort}/health` },
    { name: 'ADDRESS_URL', value: `http://${addressAndPort(address, port)}/health` },
  ]
  return {
    metadata: {
      name,
      labels: { 'app.kubernetes.io/managed-by': 'metalbar', 'metalbar.dev/probe': 'true' },
      ownerReferences: [
        { apiVersion: 'inference.llmkube.dev/v1alpha1', kind: 'InferenceService', name: target.name, uid },
      ],
    },
    spec: {
      restartPolicy: 'Never',
      activeDeadlineSeconds: probeLimitMs / 1_000,
      terminationGracePeriodSeconds: 0,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: { runAsNonRoot: true, runAsUser: 65_534, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          ...{ name: 'probe', image, imagePullPolicy: 'IfNotPresent', command: ['sh', '-c', script], env },
          securityContext: {
            ...{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, runAsNonRoot: true },
            capabilities: { drop: ['ALL'] },
          },
          resources: { requests: { cpu: '10m', memory: '16Mi' }, limits: { cpu: '100m', memory: '32Mi' } },
        },
      ],
    },
  }
}

const text = z.string().max(10_000).default('')
const containerState = z.object({
  waiting: z.object({ reason: text, message: text }).optional(),
  terminated: z.object({ exitCode: z.int(), reason: text, message: text }).optional(),
})
const pod = z.object({
  metadata: objectMeta,
  status: z
    .object({
      phase: text,
      reason: text,
      message: text,
      conditions: z.array(z.object({ type: text, status: text, reason: text, message: text })).default([]),
      containerStatuses: z.array(z.object({ name: text, state: containerState.default({}) })).default([]),
    })
    .prefault({}),
})
type Pod = z.infer<typeof pod>

/** Undefined while it is on its way. Pure. */
export function judgePod({ status }: Pod, target: ProbeTarget): FromClusterView | undefined {
  // Others may have been put into the Pod, such as the proxy of a service mesh.
  const container = status.containerStatuses.find(({ name }) => name === 'probe')
  const { waiting, terminated } = container?.state ?? {}
  const heard = terminated && judgeDials(terminated.message, target)
  if (heard) return heard
  if (terminated) {
    const why = terminated.message || terminated.reason
    return podTrouble(`It ended with code ${terminated.exitCode} and reported no result: ${why}`)
  }
  if (status.phase === 'Failed') return podTrouble(`${status.reason} ${status.message}`)
  const isStuck = /^(?:ErrImage|ImagePull|InvalidImage|CreateContainer|RunContainer|ErrImageNeverPull)/
  if (waiting && isStuck.test(waiting.reason)) return podTrouble(`${waiting.reason}: ${waiting.message}`)
  return undefined
}

/** Why a Pod that never began is on no node. */
const unscheduled = ({ status }: Pod): string | undefined =>
  status.conditions.find((one) => one.type === 'PodScheduled' && one.status === 'False')?.message

const podTrouble = (why: string): FromClusterView => ({
  hop: 'pod',
  isReached: false,
  says: `The Pod could not send its requests: ${sentence(why.trim(), maxSaidBytes)}.`,
})

/** Which part of the way failed, by what wget of BusyBox or GNU says of both dials; undefined where the text is none of the script's. Pure. */
export function judgeDials(message: string, target: ProbeTarget): FromClusterView | undefined {
  const service = dialIn(message, 'service')
  const address = dialIn(message, 'address')
  if (!service) return undefined
  const url = `${target.serviceName}.${target.namespace}:${target.servicePort}`
  const at = addressAndPort(target.address, target.port)
  const said = (hop: FromClusterView['hop'], says: string): FromClusterView => ({ hop, isReached: false, says })
  const answeredBadly = ({ says }: Dial) =>
    said(
      'status',
      `A Pod reaches ${at}, which answers ${says}: the model does not answer yet, or another program listens there.`,
    )
  // A service that asks for an API key answers 401, since the Pod sends none.
  const isAnswered = (dial: Dial) =>
    dial.kind === 'reached' || (dial.kind === 'status' && /^(?:401|403|404|421)/.test(dial.says))
  if (service.kind === 'noProgram') return podTrouble(`its image has no usable wget: ${service.says}`)
  if (isAnswered(service)) {
    return {
      hop: 'reached',
      isReached: true,
      says: `A Pod in ${target.namespace} reached ${url}, and with it this machine.`,
    }
  }
  if (service.kind === 'dns') {
    return said(
      'dns',
      `A Pod in ${target.namespace} cannot resolve the name of the Service ${url}: check the DNS of the cluster.`,
    )
  }
  if (service.kind === 'status') return answeredBadly(service)
  if (!address) return said('timedOut', `A Pod does not reach ${url}: ${service.says}.`)
  if (isAnswered(address)) {
    return said(
      'endpoints',
      `A Pod reaches ${at}, but not by its Service ${url} (${service.says}): nothing forwards there yet, or a NetworkPolicy forbids it.`,
    )
  }
  switch (address.kind) {
    case 'refused':
      return said(
        'refused',
        `A Pod reaches this machine, and ${at} refuses it: nothing is listening there, or a firewall rejects it.`,
      )
    case 'timedOut':
      return said(
        'timedOut',
        `What a Pod sends to ${at} gets no answer: a firewall of this machine drops it, a NetworkPolicy of the cluster does, or its nodes have no route to this address.`,
      )
    case 'unreachable':
      return said(
        'timedOut',
        `The nodes of the cluster have no route to ${at}: publish another address with metal-agent host-ip set.`,
      )
    case 'reset':
      return said(
        'reset',
        `The connection of a Pod to ${at} was closed before there was an answer: something in between closes it.`,
      )
    case 'status':
      return answeredBadly(address)
    default:
      return said('timedOut', `A Pod does not reach ${at}: ${address.says}.`)
  }
}

type Dial = {
  readonly kind: 'reached' | 'noProgram' | 'dns' | 'refused' | 'timedOut' | 'unreachable' | 'reset' | 'status' | 'other'
  readonly says: string
}

const outcomes: readonly (readonly [Dial['kind'], RegExp])[] = [
  ['dns', /bad address|unable to resolve|name or service not known|could not resolve|temporary failure in name/i],
  ['refused', /connection refused/i],
  ['unreachable', /no route to host|network is unreachable|host is unreachable/i],
  ['timedOut', /timed out|timeout/i],
  ['reset', /reset by peer|error getting response|no data received|read error/i],
  [
    'status',
    /server returned error: HTTP\/\S+ (\d{3}[^)]*)|ERROR (\d{3}[^.]*)|awaiting response\.\.\. ([45]\d\d[^.]*)/i,
  ],
]

function dialIn(message: string, which: string): Dial | undefined {
  const line = message.split('\n').find((one) => one.startsWith(`${which} `))
  const [, code, rest = ''] = /^\w+ (\d{1,3}) (.*)$/.exec(line ?? '') ?? []
  if (code === undefined) return undefined
  const says = sentence(rest.trim(), maxSaidBytes)
  if (code === '0') return { kind: 'reached', says }
  if (code === '127' || code === '126') return { kind: 'noProgram', says }
  const [kind, pattern] = outcomes.find(([, one]) => one.test(rest)) ?? (['other', /$^/] as const)
  const status =
    kind === 'status'
      ? pattern
          .exec(rest)
          ?.slice(1)
          .find((part) => part)
      : undefined
  return { kind, says: status?.trim() ?? says }
}

/** Has a Pod ask, once, and deletes it whatever comes of it. Never rejects but where it is aborted. */
export async function askFromCluster(target: ProbeTarget, options: ProbeOptions): Promise<FromClusterView> {
  const { api, image, signal, limitMs = probeLimitMs } = options
  const name = `metalbar-probe-${randomBytes(5).toString('hex')}`
  const { namespace } = target
  const limit = AbortSignal.any([signal, AbortSignal.timeout(limitMs)])
  let uid: string | undefined
  try {
    uid = pod.parse(await api.create(resources.pods, namespace, probePod(target, image, name), { signal })).metadata.uid
    let seen: Pod | undefined
    while (await pause(lookEveryMs, limit)) {
      seen = (await podNow(api, { namespace, name }, signal)) ?? seen
      const judged = seen && judgePod(seen, target)
      if (judged) return judged
    }
    signal.throwIfAborted()
    const why = seen && unscheduled(seen)
    return podTrouble(why ?? `it did not end within ${limitMs / 1_000} s`)
  } catch (error) {
    signal.throwIfAborted()
    if (!isApiError(error)) throw error
    return refused(error, namespace)
  } finally {
    await removed(api, { namespace, name, uid })
  }
}

/** Undefined where the cluster did not answer this time; what it refuses is thrown. */
async function podNow(
  api: KubeApi,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  signal: AbortSignal,
): Promise<Pod | undefined> {
  try {
    return pod.parse(await api.get(resources.pods, namespace, name, signal))
  } catch (error) {
    if (isApiError(error) && !isDecision(error)) return undefined
    throw error
  }
}

const refused = (error: ApiError, namespace: string): FromClusterView => ({
  hop: 'forbidden',
  isReached: false,
  says:
    error.code === 403
      ? `The cluster allows no such Pod in ${namespace} (${sentence(error.detail, maxSaidBytes)}): the role metalbar-probe of metal-agent rights --further gives that right, unless a policy of the namespace forbids it.`
      : `The Pod could not be made in ${namespace}: ${sentence(error.detail, maxSaidBytes)}.`,
})

/** Never rejects: what cannot be deleted now ends by itself, and goes with the InferenceService that owns it. */
async function removed(
  api: KubeApi,
  { namespace, name, uid }: { readonly namespace: string; readonly name: string; readonly uid: string | undefined },
): Promise<void> {
  const signal = AbortSignal.timeout(deleteLimitMs)
  try {
    const known = uid ?? pod.parse(await api.get(resources.pods, namespace, name, signal)).metadata.uid
    await api.delete(resources.pods, namespace, name, { uid: known }, signal)
  } catch (error) {
    if (!isApiError(error)) throw error
  }
}
