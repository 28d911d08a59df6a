import {
  accepted,
  done,
  dropHold,
  holdHere,
  type Known,
  type Outcome,
  refused,
  refusedByCluster,
  type Rooms,
} from './command.ts'
import { keeperOf } from './delete-model.ts'
import { ApiError, isApiError } from '../kube/api-error.ts'
import type { Cluster } from '../kube/cluster.ts'
import {
  type InferenceService,
  type InferenceServiceSpec,
  type ObjectMeta,
  parseInferenceService,
  resources,
} from '../kube/resources.ts'
import type { Command, CommandResult, ServiceRef } from '../../contract/commands.ts'
import { formatTokens } from '../../contract/format.ts'

/** In the cluster, so that every agent and every tool sees it; or only here, where the cluster does not take it. */
export async function stop(
  rooms: Rooms,
  known: Known,
  { service, scope }: Extract<Command, { name: 'stop' }>,
): Outcome {
  const { key } = known.report
  if (scope === 'here') {
    if (known.personsHold) {
      return done(`${key} is already held back on this machine. ${known.personsHold.message}`)
    }
    const message = 'A person stopped it only on this machine; Start brings it back.'
    await holdHere(rooms, known, 'stopped', message)
    return done(`${key} is stopped on this machine; the cluster still asks for it, and another machine may take it.`)
  }
  try {
    const { changed, service: now } = await stopInCluster(known.session.cluster, service)
    if (!changed) return done(`${key} is already stopped in the cluster.`)
    const how = now.spec.value.replicas === 0 ? 'scaled to zero replicas' : 'suspended (spec.suspend)'
    const why = isKueues(now.metadata) ? ', since Kueue decides about spec.suspend' : ''
    return done(`${key} is ${how} in the cluster${why}; its server finishes the requests in flight and ends.`)
  } catch (error) {
    if (!isApiError(error)) throw error
    return refusedByCluster(`${key} was not stopped`, error, {
      command: { name: 'stop', service, scope: 'here' },
      label: 'Stop only on this machine',
    })
  }
}

/** Undoes every stop: the hold on this machine, and the stop in the cluster. */
export async function start(rooms: Rooms, known: Known, { service }: Extract<Command, { name: 'start' }>): Outcome {
  const { key } = known.report
  const wasIdle = known.session.reconciler.wake(key)
  const wasHeld = known.report.hold !== undefined
  if (wasHeld) {
    await dropHold(rooms, known)
    rooms.history.add({ kind: 'broughtBack', service, message: 'A person brought it back on this machine.' })
  }
  try {
    const { changed, service: now } = await changeInCluster(known.session.cluster, service, resumption)
    if (changed) return done(`${key} is started: the cluster asks for it again.`)
    if (isKueues(now.metadata) && now.spec.value.suspend) {
      return done(`${key} is requested; it starts when the Kueue queue ${now.metadata.labels[kueueQueue]} admits it.`)
    }
    return done(wasHeld || wasIdle ? `${key} is started on this machine.` : `${key} is already requested.`)
  } catch (error) {
    if (!isApiError(error)) throw error
    if ((wasHeld || wasIdle) && isAskedFor(known)) return done(`${key} is started on this machine.`)
    return refusedByCluster(`${key} was not started`, error)
  }
}

/** Whether the cluster asks for the service, as far as this machine knows. */
function isAskedFor({ report: { service } }: Known): boolean {
  return service?.spec.ok === true && !service.spec.value.suspend && service.spec.value.replicas > 0
}

/** How many replicas there were before a stop that had to scale to zero. */
const replicasBeforeStop = 'metalbar.dev/replicas-before-stop'

/** With this label `spec.suspend` is Kueue's: it is how a queue holds a workload back and lets it go. */
const kueueQueue = 'kueue.x-k8s.io/queue-name'

/** Suspends it; where that is not ours to do or the cluster's schema does not know it, scales to zero. Throws ApiError. */
async function stopInCluster(cluster: Cluster, ref: ServiceRef): Promise<ClusterChange> {
  const suspended = await changeInCluster(cluster, ref, suspension)
  // An older definition of InferenceService drops the field without a word.
  return isStopped(suspended.service) ? suspended : changeInCluster(cluster, ref, scalingToZero)
}

const isKueues = ({ labels }: ObjectMeta): boolean => labels[kueueQueue] !== undefined

function isStopped({ metadata, spec }: InferenceService): boolean {
  return spec.value.replicas === 0 || (spec.value.suspend && !isKueues(metadata))
}

const suspension: Change = (metadata, { suspend, replicas }) =>
  isKueues(metadata) || suspend || replicas === 0 ? undefined : { spec: { suspend: true } }

const scalingToZero: Change = (_metadata, { replicas }) =>
  replicas === 0 ? undefined : { annotations: { [replicasBeforeStop]: String(replicas) }, spec: { replicas: 0 } }

/** Undoes a stop, ours or another's, and makes zero replicas one. */
const resumption: Change = (metadata, { suspend, replicas }) => {
  const kept = metadata.annotations[replicasBeforeStop]
  const mustResume = suspend && !isKueues(metadata)
  if (!mustResume && replicas > 0) return undefined
  return {
    ...(kept !== undefined && { annotations: { [replicasBeforeStop]: null } }),
    spec: { ...(mustResume && { suspend: false }), ...(replicas === 0 && { replicas: replicasIn(kept) }) },
  }
}

/** Other writers may have set the annotation, so its value is not trusted. */
const replicasIn = (text = ''): number => (/^([1-9]|10)$/.test(text) ? Number(text) : 1)

/** In the specification, so that it counts on whatever machine serves it. */
export async function setContextSize(
  rooms: Rooms,
  known: Known,
  command: Extract<Command, { name: 'setContextSize' }>,
): Outcome {
  const { service, contextSize } = command
  const { key } = known.report
  const context = contextSize === null ? 'the default context' : `a context of ${formatTokens(contextSize)}`
  let before: number | null = null
  try {
    const { changed, service: now } = await changeInCluster(known.session.cluster, service, (_metadata, spec) => {
      before = spec.contextSize ?? null
      return before === contextSize || isOverruled(spec) ? undefined : { spec: { contextSize } }
    })
    if (isOverruled(now.spec.value)) {
      return refused(`The context size of ${key} is set in its spec.extraArgs, which wins: change it there.`)
    }
    if (!changed) return done(`${key} has ${context} already.`)
    rooms.history.add({
      ...{ kind: 'settingsChanged', service, message: `A person set it to ${context}.` },
      undo: { name: 'setContextSize', service, contextSize: before },
    })
    const keeper = keeperOf(now.metadata)
    const undone = keeper === undefined ? '' : ` ${keeper} manages it and may set it back.`
    return done(`${key} is started with ${context} (spec.contextSize).${undone}`)
  } catch (error) {
    if (!isApiError(error)) throw error
    return refusedByCluster(`The context size of ${key} was not changed`, error)
  }
}

const isOverruled = ({ extraArgs }: InferenceServiceSpec): boolean =>
  extraArgs.some((argument) => /^(?:-c|--ctx-size)(?:=|$)/.test(argument))

/** Others write the same object all the time; each attempt reads it again. */
const maxAttempts = 10

interface Patch {
  /** Null removes. */
  readonly annotations?: Readonly<Record<string, string | null>>
  readonly spec: Partial<Pick<InferenceServiceSpec, 'suspend' | 'replicas'>> & { readonly contextSize?: number | null }
}

/** The change to the object, or undefined where it is in that state already. */
type Change = (metadata: ObjectMeta, spec: InferenceServiceSpec) => Patch | undefined

interface ClusterChange {
  readonly changed: boolean
  /** The object as the cluster has it now. */
  readonly service: InferenceService
}

/** Reads the object and writes it with the resourceVersion read as precondition. */
async function changeInCluster(
  cluster: Cluster,
  { namespace, name }: ServiceRef,
  wanted: Change,
): Promise<ClusterChange> {
  const { api, inferenceServices } = cluster
  for (let attempt = 1; ; attempt += 1) {
    const service = parseInferenceService(await api.get(resources.inferenceServices, namespace, name))
    if (!service.spec.ok) throw new ApiError(service.spec.message, { code: 422 })
    const patch = wanted(service.metadata, service.spec.value)
    if (!patch) return { changed: false, service }
    const { uid, resourceVersion } = service.metadata
    const { annotations, spec } = patch
    const body = { metadata: { uid, resourceVersion, ...(annotations && { annotations }) }, spec }
    try {
      const answer = await api.mergePatch(resources.inferenceServices, namespace, name, body)
      const written = parseInferenceService(answer)
      inferenceServices.upsert(written)
      return { changed: true, service: written }
    } catch (error) {
      if (!isApiError(error, 409) || attempt === maxAttempts) throw error
    }
  }
}

/** A new server process, also in place of a serving one; the back-off after crashes ends. */
export function restart(
  { memory }: Rooms,
  known: Known,
  { service }: Extract<Command, { name: 'restart' }>,
): CommandResult {
  const { reconciler } = known.session
  const { key, plan, observed } = known.report
  if (observed.paused) return refused(`${key} was not restarted: this machine is paused; resume it first.`)
  if (observed.desired.kind === 'stopped' || observed.desired.kind === 'held') {
    return refused(`${key} was not restarted, since it is stopped. ${plan.message}`, {
      command: { name: 'start', service },
      label: 'Start',
    })
  }
  if (plan.state === 'foreign' || observed.desired.kind !== 'serve' || !reconciler.restart(key)) {
    return refused(`${key} was not restarted. ${plan.message}`)
  }
  if (plan.reason === 'Idle') return accepted(`${key} is started.`)
  const others = memory.book.sharedWith(key)
  if (others.length > 0)
    return accepted(`${key} is restarted, but not its model: that stays in memory for ${others.join(', ')}.`)
  return accepted(
    `${key} is restarted: its address is withdrawn, requests in flight finish, and the new server then takes its place.`,
  )
}

/** Leaves memory now, on this machine, until brought back. */
export async function evict(rooms: Rooms, known: Known, { service }: Extract<Command, { name: 'evict' }>): Outcome {
  const { key } = known.report
  if (known.personsHold) {
    return done(`${key} is already held back on this machine. ${known.personsHold.message}`)
  }
  await holdHere(
    rooms,
    known,
    'evicted',
    'A person evicted it from the memory of this machine; it stays out until it is brought back.',
  )
  rooms.history.add({ kind: 'evicted', service, message: 'A person evicted it from memory.' })
  return done(`${key} leaves the memory of this machine once its requests have finished; another machine may take it.`)
}

/** Ends whatever holds a service back on this machine; a stop in the cluster stays. */
export async function bringBack(
  rooms: Rooms,
  known: Known,
  { service }: Extract<Command, { name: 'bringBack' }>,
): Outcome {
  const { key } = known.report
  if (known.session.reconciler.wake(key)) return done(`${key} is started on this machine.`)
  if (!known.report.hold) return done(`${key} is not held back on this machine.`)
  await dropHold(rooms, known)
  rooms.history.add({ kind: 'broughtBack', service, message: 'A person brought it back on this machine.' })
  return done(`${key} may be served by this machine again.`)
}

/** Keeps a service from eviction on this machine, or no longer; what its specification says stays. */
export async function protect(rooms: Rooms, known: Known, command: Extract<Command, { name: 'protect' }>): Outcome {
  const { service, protect: wanted } = command
  const { key } = known.report
  const { unloadReasons, changed, history } = rooms
  const { spec } = known.report.service ?? {}
  const isBySpec = spec?.ok === true && spec.value.evictionProtection
  if (isBySpec && !wanted) {
    return refused(
      `${key} stays protected, since spec.evictionProtection of the InferenceService says so: change it there.`,
    )
  }
  const wasProtected = unloadReasons.isProtected(known.uid)
  const { uid, session } = known
  await unloadReasons.protect({ uid, ...service, cluster: session.cluster.api.context.server }, wanted)
  if (wasProtected !== wanted && !isBySpec) {
    history.add({
      ...{
        kind: 'settingsChanged',
        service,
        message: `A person ${wanted ? 'protected it here' : 'removed its protection here'}.`,
      },
      undo: { name: 'protect', service, protect: !wanted },
    })
  }
  known.session.reconciler.enqueue(key)
  changed()
  if (wanted) return done(`${key} is protected on this machine: memory pressure does not evict it.`)
  return done(`${key} may be evicted when memory is critically short.`)
}

/** Ends a drain at once: requests in flight are cut short. */
export function skipDrain({ servers }: Rooms, { report: { key } }: Known): CommandResult {
  return servers.skipDrain(key)
    ? done(`The server of ${key} ends now; requests in flight are cut off.`)
    : refused(`The server of ${key} is not waiting for requests to finish.`)
}

/** Ends a download and does not begin it again until a person starts the service. */
export async function cancelDownload(
  rooms: Rooms,
  known: Known,
  { service }: Extract<Command, { name: 'cancelDownload' }>,
): Outcome {
  const { key, fetch, observed, plan } = known.report
  // A download that is just about to begin is shown as one already.
  if (!fetch.isRunning && plan.state !== 'fetching') return refused(`Nothing is being downloaded for ${key}.`)
  if (observed.server.kind === 'ready' || observed.server.kind === 'unready') {
    return refused(
      `${key} serves its previous model while the new one is downloaded; only stopping the service ends that.`,
      {
        command: { name: 'stop', service, scope: 'here' },
        label: 'Stop only on this machine',
      },
    )
  }
  await holdHere(rooms, known, 'downloadCancelled', 'A person cancelled its download; Start continues it.')
  return done(`The download for ${key} is cancelled; what has arrived is kept, and Start continues from there.`)
}
