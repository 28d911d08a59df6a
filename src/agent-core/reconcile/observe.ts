import type { PortPolicy } from '../servers/launch.ts'
import type { PublicationView as Published } from '../publishing/publisher.ts'
import type { UnloadReason } from './unload-reasons.ts'
import {
  type Beside,
  disagreement,
  type Observation,
  type PublicationView,
  type ServerView,
  type Unreached,
} from './plan/observation.ts'
import type { ClusterWrites } from './cluster-writes.ts'
import type { ModelFetch } from './model-fetch.ts'
import { listenObstacle, unreached, type ReachInputs } from './reach.ts'
import type { Reading } from './reading.ts'
import type { ServerStarts } from './server-starts.ts'
import { drainFigures } from './server-view.ts'
import type { ServiceRooms } from './service-rooms.ts'
import { runtimes } from '../runtimes/runtimes.ts'
import { loopback } from '../servers/listening.ts'
import { isOver, type ServerState } from '../servers/server-state.ts'

/** What one service has of its own. */
export interface ObservedService {
  readonly key: string
  readonly fetch: Pick<ModelFetch, 'view'>
  readonly starts: Pick<ServerStarts, 'views' | 'stopReason' | 'isRestartAsked' | 'hasSuccessor'>
  readonly writes: Pick<ClusterWrites, 'retry' | 'serviceRetry'>
  readonly unloadReason: UnloadReason | undefined
  /** The observation before this one. */
  readonly before: Observation | undefined
}

type Rooms = Pick<
  ServiceRooms,
  | 'publisher'
  | 'servers'
  | 'unloadReasons'
  | 'admission'
  | 'turns'
  | 'hostAddress'
  | 'apiKeys'
  | 'door'
  | 'ingress'
  | 'launches'
  | 'silenceOf'
  | 'settings'
>

/** What {@link plan} decides by: the reading, and what the rooms say of this machine. Has no effect on what runs or is published. */
export function observe(reading: Reading, rooms: Rooms, service: ObservedService): Observation {
  const { publisher, servers, unloadReasons, hostAddress, silenceOf } = rooms
  const { now, target } = reading
  const { key, fetch, starts, writes, unloadReason, before } = service
  const { server, successor, retiring } = starts.views()
  const publication = publicationView(publisher.observe(target), now)
  const figures = drainFigures([servers.get(key), servers.successor(key), servers.retiring(key)])
  const address = hostAddress()
  const reach: ReachInputs = {
    key,
    address,
    apiKeySecret: reading.apiKeySecret,
    runtime: reading.desiredServer?.runtime,
    rooms,
  }
  const notReached = {
    server: unreachedAs('current', servers.get(key), reach, servers),
    successor: unreachedAs('successor', servers.successor(key), reach, servers),
  }
  const isOpenNeedlessly = opensNeedlessly(reach, rooms)
  return {
    now,
    desired: reading.desired,
    address,
    relayPort: publisher.wayFor(key) === 'relay' ? rooms.ingress.port : undefined,
    isOpenNeedlessly,
    fetch: fetch.view(),
    server,
    successor,
    retiring,
    ...startView(reading, rooms, service, {
      ...{ server, reach },
      isMoved: isOpenNeedlessly || notReached.server?.kind === 'misplaced',
    }),
    unreached: notReached,
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
  role: 'current' | 'successor',
  state: ServerState | undefined,
  reach: ReachInputs,
  servers: Pick<Rooms['servers'], 'hostOf'>,
): Unreached | undefined {
  const host = servers.hostOf(reach.key, role)
  if (host === undefined || !state || isOver(state) || !('port' in state)) return undefined
  return unreached({ host, port: state.port }, reach)
}

function opensNeedlessly(
  { key, runtime }: ReachInputs,
  { publisher, ingress, servers, launches }: Pick<Rooms, 'publisher' | 'ingress' | 'servers' | 'launches'>,
): boolean {
  const host = servers.hostOf(key)
  if (host === undefined || host === loopback || runtime === undefined) return false
  const isReachedByRelay = publisher.wayFor(key) === 'relay' && ingress.state.kind === 'open'
  return isReachedByRelay && launches.hostFor(runtimes[runtime], key) === loopback
}

interface StartInputs {
  readonly server: ServerView
  readonly reach: ReachInputs
  readonly isMoved: boolean
}

function startView(
  { desired, desiredServer, now }: Reading,
  { settings, servers, admission, turns }: Rooms,
  { key, starts }: ObservedService,
  { server, reach, isMoved }: StartInputs,
): Pick<Observation, 'beside' | 'instead' | 'obstacle'> {
  const cannotListen = listenObstacle(reach, now)
  const { beside, instead = cannotListen?.message, noMemory } = admission.view(key, desiredServer)
  const obstacle = turns.obstacleOf(key, desiredServer?.digest) ?? cannotListen ?? noMemory
  const runs = server.kind === 'ready' || server.kind === 'starting'
  const isReplaced =
    runs && desired.kind === 'serve' && (server.digest !== desired.digest || starts.isRestartAsked || isMoved)
  if (!isReplaced && !starts.hasSuccessor) return { beside: notAsked, instead, obstacle }
  const why = beside && desiredServer && noPortBeside(settings.port(desiredServer.runtime), servers.running)
  return { beside: why === undefined ? beside : { allowed: false, why }, instead, obstacle }
}

const notAsked: Beside = { allowed: false, why: '' }

/** Why no further server can have a port while `running` have theirs; half of a sentence. */
function noPortBeside(policy: PortPolicy, running: number): string | undefined {
  switch (policy.kind) {
    case 'ephemeral':
      return undefined
    case 'fixed':
      return `port ${policy.port} is for one server only`
    case 'range':
      if (policy.to - policy.from + 1 > running) return undefined
      return `every port from ${policy.from} to ${policy.to} has a server`
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
    message: 'message' in claim ? claim.message : claim.kind === 'ours' ? (claim.edits?.message ?? '') : '',
    ...(claim.kind === 'taken' && claim.isNameTooLong && { isNameTooLong: true }),
    retryAt: view.recheckInMs === undefined ? undefined : now + view.recheckInMs,
    ...serviceView(view),
    ...(view.serviceEdits && {
      serviceEdits: { message: view.serviceEdits.message, mendAt: now + view.serviceEdits.mendInMs },
    }),
    shown: published,
    complete: view.complete,
    ...('edits' in claim && claim.edits !== undefined && { mendAt: now + claim.edits.mendInMs }),
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
