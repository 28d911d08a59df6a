import type { Condition, EndpointSlice, InferenceService, Model, Status } from './objects.ts'

/** An agent that has not stamped its slice for so long counts as dead; LLMKube's constant. */
export const heartbeatExpiryMs = 180_000

const heartbeatAnnotation = 'llmkube.ai/agent-heartbeat'

export interface Observed {
  readonly service: InferenceService
  /** Undefined = there is no Model of that name. */
  readonly model: Model | undefined
  /** Every slice of that service-name. */
  readonly slices: readonly EndpointSlice[]
  readonly nowMs: number
}

/** LLMKube's controller's status of a metal service: everything it owns anew, everything else as it is. */
export function inferenceServiceStatus(observed: Observed): Status {
  const { service, model, nowMs } = observed
  const previous = service.status ?? {}
  const suspended = service.spec.suspend === true
  const desired = suspended ? 0 : (service.spec.replicas ?? 1)
  const isModelReady = model?.status?.phase === 'Ready'
  const endpoints = isModelReady ? readyEndpoints(observed) : { ready: 0, isStale: false, lastSeen: '' }
  const phase = !model ? 'Failed' : !isModelReady ? 'Pending' : phaseOf(suspended, desired, endpoints.ready)
  return {
    ...previous,
    phase,
    readyReplicas: endpoints.ready,
    desiredReplicas: desired,
    replicas: desired,
    modelReady: isModelReady,
    endpoint: endpointUrl(service),
    lastUpdated: timestamp(nowMs),
    // Without news it leaves the old words, even on a service that is Ready.
    ...(phase === 'Creating' ? schedulingOf(endpoints) : {}),
    conditions: conditionsOf(observed, phase, endpoints.ready, desired),
  }
}

/** The name of the Service and of our slice: LLMKube only replaces dots. */
export const serviceName = (service: InferenceService): string => service.metadata.name.replaceAll('.', '-')

interface Endpoints {
  readonly ready: number
  readonly isStale: boolean
  readonly lastSeen: string
}

function readyEndpoints({ slices, nowMs }: Observed): Endpoints {
  const stamps = slices.flatMap(({ metadata }) => metadata.annotations?.[heartbeatAnnotation] ?? [])
  const parsed = stamps.map((stamp) => Date.parse(stamp)).filter((time) => !Number.isNaN(time))
  const latest = Math.max(...parsed)
  // No stamp at all is an old agent, which is trusted; none that can be read is not.
  const isStale = stamps.length > 0 && (parsed.length === 0 || nowMs - latest > heartbeatExpiryMs)
  if (isStale) return { ready: 0, isStale, lastSeen: stamps.at(-1) ?? '' }
  const ready = slices
    .flatMap(({ endpoints }) => endpoints ?? [])
    .filter(({ conditions }) => conditions?.ready !== false)
    .reduce((sum, { addresses }) => sum + addresses.length, 0)
  return { ready, isStale, lastSeen: '' }
}

function phaseOf(suspended: boolean, desired: number, ready: number): string {
  if (suspended) return 'Suspended'
  if (ready > 0) return ready === desired ? 'Ready' : 'Progressing'
  return desired === 0 ? 'Stopped' : 'Creating'
}

const schedulingOf = ({ isStale, lastSeen }: Endpoints): Status =>
  isStale
    ? {
        schedulingStatus: 'AgentHeartbeatStale',
        schedulingMessage: `The metal-agent's last heartbeat was at ${lastSeen}`,
      }
    : {
        schedulingStatus: 'WaitingForMetalAgent',
        schedulingMessage: 'Waiting for a metal-agent to register a ready endpoint',
      }

function endpointUrl(service: InferenceService): string {
  const { port = 8080, path = '/v1/chat/completions' } = service.spec.endpoint ?? {}
  return `http://${serviceName(service)}.${service.metadata.namespace}.svc.cluster.local:${port}${path}`
}

function conditionsOf({ service, nowMs }: Observed, phase: string, ready: number, desired: number): Condition[] {
  const conditions = new Map((service.status?.conditions ?? []).map((one) => [one.type, one]))
  const set = (type: string, isTrue: boolean, reason: string, message: string) => {
    const before = conditions.get(type)
    const status = isTrue ? 'True' : 'False'
    conditions.set(type, {
      type,
      status,
      reason,
      message,
      lastTransitionTime: before?.status === status ? before.lastTransitionTime : timestamp(nowMs),
      observedGeneration: service.metadata.generation ?? 0,
    })
  }
  if (phase === 'Suspended') set('Suspended', true, 'Suspended', 'InferenceService is suspended')
  else set('Suspended', false, 'NotSuspended', 'InferenceService is not suspended')
  if (ready > 0) set('Available', true, 'InferenceReady', 'Inference service is ready')
  else if (phase === 'Suspended') set('Available', false, 'Suspended', 'workload suspended')
  else if (desired === 0) set('Available', false, 'ManuallyScaledToZero', 'workload scaled to zero')
  else set('Available', false, 'NoReadyReplicas', 'no replica is ready')
  if (phase === 'Creating' || phase === 'Progressing')
    set('Progressing', true, 'Creating', 'replicas are being created')
  else if (phase === 'Pending') set('Progressing', true, 'Pending', 'waiting for the Model to be ready')
  else conditions.delete('Progressing')
  if (phase === 'Failed') set('Degraded', true, 'Failed', 'the Model does not exist')
  else conditions.delete('Degraded')
  return [...conditions.values()]
}

/** Go writes timestamps with whole seconds. */
export const timestamp = (epochMs: number): string => new Date(epochMs).toISOString().replace(/\.\d+Z$/, 'Z')
