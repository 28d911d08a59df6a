import { setTimeout as delay } from 'node:timers/promises'
import type { ServiceReason, ServiceView } from '../../contract/service.ts'
import { InstallationError } from '../installation-host.ts'
import type { MigrationWorld } from './migration-world.ts'
import type { FoundService } from './cluster-look.ts'

const lookEveryMs = 200
const liveLimitMs = 90_000
/** For memory that macOS gives back late. */
const waitingLimitMs = 60_000

/** Waits until our agent sees the cluster. Throws InstallationError. */
export async function untilLive({ ownAgent, signal }: MigrationWorld): Promise<void> {
  const ends = performance.now() + liveLimitMs
  let said = 'it does not answer on its socket'
  while (performance.now() < ends) {
    signal.throwIfAborted()
    const snapshot = await ownAgent()
    if (snapshot?.cluster.state === 'live') return
    if (snapshot) said = snapshot.cluster.message
    await delay(lookEveryMs)
  }
  throw new InstallationError(`The agent was started and does not see the cluster: ${said}`)
}

/** A server that cannot start does not serve a minute later either. */
const failures = new Set<ServiceReason>([
  'FetchFailed',
  'StartFailed',
  'CrashLooping',
  'Refused',
  'ExtraArgsRejected',
  'EnvironmentRejected',
  'ModelMissing',
  'ServiceNameTaken',
  'NoHostAddress',
  'HeldAfterPanic',
  'MemoryExceeded',
  'ClaimOverwritten',
])

/** Undefined when it serves; one sentence where it does not. */
export async function untilServed(
  { ownAgent, signal, tell }: MigrationWorld,
  service: FoundService,
): Promise<string | undefined> {
  const key = `${service.namespace}/${service.name}`
  let shown = ''
  let waitsSince: number | undefined
  for (;;) {
    signal.throwIfAborted()
    const view = viewOf(await ownAgent(), service)
    if (view?.state === 'ready') return undefined
    if (view && view.message !== shown) {
      shown = view.message
      tell(`${key}: ${shown}`)
    }
    if (view && (view.state === 'refused' || failures.has(view.reason))) return view.message
    const waits = view === undefined || view.state === 'waiting' || view.state === 'foreign' || view.state === 'stopped'
    waitsSince = waits ? (waitsSince ?? performance.now()) : undefined
    if (waitsSince !== undefined && performance.now() - waitsSince > waitingLimitMs) {
      return view?.message ?? 'The agent does not answer any more.'
    }
    await delay(lookEveryMs)
  }
}

const viewOf = (
  snapshot: { readonly services: readonly ServiceView[] } | undefined,
  { namespace, name }: FoundService,
): ServiceView | undefined => snapshot?.services.find((one) => one.namespace === namespace && one.name === name)
