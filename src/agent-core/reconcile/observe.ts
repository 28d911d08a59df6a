import type { PublicationView as Published } from '../publishing/publisher.ts'
import type { UnloadReason } from './unload-reasons.ts'
import { disagreement, type Observation, type PublicationView, type Unreached } from './plan/observation.ts'
import type { ClusterWrites } from './cluster-writes.ts'
import type { ModelFetch } from './model-fetch.ts'
import { listenObstacle, unreached, type ReachInputs } from './reach.ts'
import type { Reading } from './reading.ts'
import type { ServerStarts } from './server-starts.ts'
import { drainFigures } from './server-view.ts'
import type { ServiceRooms } from './service-rooms.ts'
import { isOver, type ServerState } from '../servers/server-state.ts'

/** What one service has of its own. */
export interface ObservedService {
  readonly key: string
  readonly fetch: Pick<ModelFetch, 'view'>
  readonly starts: Pick<ServerStarts, 'view' | 'replacement' | 'stopReason' | 'isRestartAsked'>
  readonly writes: Pick<ClusterWrites, 'retry' | 'serviceRetry'>
  readonly unloadReason: UnloadReason | undefined
  /** The observation before this one. */
  readonly before: Observation | undefined
}

/** What {@link plan} decides by: the reading, and what the rooms say of this machine. Has no effect on what runs or is published. */
export function observe(reading: Reading, rooms: ServiceRooms, service: ObservedService): Observation {
  const { publisher, servers, unloadReasons, hostAddress, silenceOf } = rooms
  const { now, target } = reading
  const { key, fetch, starts, writes, unloadReason, before } = service
  const publication = publicationView(publisher.observe(target), now)
  const figures = drainFigures(servers.get(key))
  const address = hostAddress()
  const reach: ReachInputs = {
    key,
    address,
    apiKeySecret: reading.apiKeySecret,
    runtime: reading.desiredServer?.runtime,
    rooms,
  }
  return {
    now,
    desired: reading.desired,
    address,
    relayPort: publisher.wayFor(key) === 'relay' ? rooms.ingress.port : undefined,
    fetch: fetch.view(),
    server: starts.view,
    ...startView(reading, rooms, service, reach),
    unreached: unreachedAs(servers.get(key), reach, servers),
    stopReason: starts.stopReason,
    publication,
    unloaded: unloadReason?.kind === 'idle' ? unloadReason : undefined,
    restartAsked: starts.isRestartAsked,
    paused: unloadReasons.pausedSince !== undefined,
    silence: silenceOf(key),
    clusterRetry: writes.retry,
    serviceRetry: writes.serviceRetry,
    disagreement: disagreementView(reading, publication, before?.disagreement),
    ...(figures !== undefined && { drainFigures: figures }),
  }
}

function unreachedAs(
  state: ServerState | undefined,
  reach: ReachInputs,
  servers: ServiceRooms['servers'],
): Unreached | undefined {
  const host = servers.factsOf(reach.key)?.host
  if (host === undefined || !state || isOver(state) || !('port' in state)) return undefined
  return unreached({ host, port: state.port }, reach)
}

function startView(
  { desiredServer, now }: Reading,
  { admission, turns }: ServiceRooms,
  { key, starts }: ObservedService,
  reach: ReachInputs,
): Pick<Observation, 'instead' | 'obstacle'> {
  const cannotListen = listenObstacle(reach, now)
  const { instead, noMemory } = admission.view(key, desiredServer)
  const unlistened = cannotListen && { refusal: cannotListen.message, retryAt: cannotListen.retryAt }
  const known = desiredServer && starts.replacement(desiredServer.digest)
  return {
    instead: known ?? (instead?.refusal === undefined ? (unlistened ?? instead) : instead),
    obstacle: turns.obstacleOf(key, desiredServer?.digest) ?? cannotListen ?? noMemory,
  }
}

/** As long as the sentence stays the same, so does its time. */
function disagreementView(
  { now, service, model }: Reading,
  { claim, shown }: PublicationView,
  before: Observation['disagreement'],
): Observation['disagreement'] {
  const message = claim === 'ours' ? disagreement(shown?.ready === true, service, model) : undefined
  return message === undefined ? undefined : { message, since: before?.message === message ? before.since : now }
}

export function publicationView(view: Published, now: number): PublicationView {
  const { claim, published } = view
  return {
    claim: claim.kind,
    message: 'message' in claim ? claim.message : '',
    ...(claim.kind === 'taken' && claim.isNameTooLong && { isNameTooLong: true }),
    retryAt: view.recheckInMs === undefined ? undefined : now + view.recheckInMs,
    ...serviceView(view),
    ...(view.serviceMendInMs > 0 && { serviceMendAt: now + view.serviceMendInMs }),
    shown: published,
    complete: view.complete,
    ...('mendInMs' in claim && { mendAt: now + claim.mendInMs }),
    present: view.present,
  }
}

function serviceView({
  service,
  serviceUpToDate,
  serviceIsOwn,
}: Published): Pick<PublicationView, 'service' | 'serviceMessage'> {
  switch (service.kind) {
    case 'absent':
      return { service: 'absent', serviceMessage: '' }
    case 'taken':
    case 'refused':
      return { service: 'taken', serviceMessage: service.message }
    // Where it may be taken back, it is shown as ours.
    case 'relayed':
      return { service: 'ours', serviceMessage: '' }
    case 'ours':
      if (!serviceIsOwn) return { service: 'adoptable', serviceMessage: '' }
      return { service: serviceUpToDate ? 'ours' : 'outdated', serviceMessage: '' }
  }
}
