import { setTimeout as delay } from 'node:timers/promises'
import { isApiError } from '../../agent-core/kube/api-error.ts'
import type { KubeApi } from '../../agent-core/kube/kube-api.ts'
import { parseEndpointSlice, resources, type EndpointSlice } from '../../agent-core/kube/resources.ts'
import type { Platform } from '../../agent-core/platform/platform.ts'
import { askActivity } from '../../agent-core/servers/probe.ts'
import { claimText } from '../../agent-core/publishing/objects.ts'
import {
  annotations,
  heartbeatAt,
  heartbeatOf,
  serviceNameOf,
  withdrawPatch,
} from '../../agent-core/publishing/objects.ts'
import { hasCode } from '../../agent-core/util/files.ts'
import type { FoundService } from './cluster-look.ts'
import type { GoServer } from './go-agent-processes.ts'
import type { Transfer } from './plan.ts'
import { isHeldByOurs } from './slice-holder.ts'

/** Requests in flight get as long to finish as our own agent gives them. */
const drainMs = 30_000
const drainLookMs = 100
const activityLimitMs = 1_000
/** As the Go agent waits between SIGTERM and SIGKILL. */
const graceMs = 10_000
const goneLookMs = 20
/** Somebody else wrote in between. */
const writeTries = 5

interface HandOver {
  readonly api: KubeApi
  readonly platform: Pick<Platform, 'isRunning'>
}

/**
 * Takes one service from a Go agent that is paused: nobody is sent to its server any more, requests in flight finish, the server ends, and the
 * slice is marked as given up, which lets our agent claim it at once instead of after three minutes of silence.
 */
export async function giveUp({ service, server }: Transfer, { api, platform }: HandOver): Promise<void> {
  await changeSlice(api, service, (slice) => withdrawPatch(slice))
  if (server !== undefined) {
    await drained(server.port)
    await endProcess(server, platform)
  }
  await changeSlice(api, service, (slice) => ({
    ...withdrawPatch(slice),
    metadata: { annotations: { [annotations.claim]: claimText({ heartbeat: heartbeatOf(slice) }) } },
  }))
}

/** A paused Go agent writes no heartbeats, and after three minutes without one its services count as dead. */
export async function renewHeartbeat(api: KubeApi, service: FoundService): Promise<void> {
  const heartbeat = heartbeatAt(api.serverNow())
  await changeSlice(api, service, () => ({ metadata: { annotations: { [annotations.heartbeat]: heartbeat } } }))
}

/** Nothing where there is no slice, or an agent of ours holds it. */
async function changeSlice(
  api: KubeApi,
  { namespace, name }: FoundService,
  change: (slice: EndpointSlice) => { readonly metadata: object },
): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      const slice = parseEndpointSlice(await api.get(resources.endpointSlices, namespace, serviceNameOf(name)))
      if (isHeldByOurs(slice)) return
      const patch = change(slice)
      const { uid, resourceVersion } = slice.metadata
      const metadata = { ...patch.metadata, uid, resourceVersion }
      await api.mergePatch(resources.endpointSlices, namespace, serviceNameOf(name), { ...patch, metadata })
      return
    } catch (error) {
      if (isApiError(error, 404)) return
      if (!isApiError(error, 409) || tries === writeTries) throw error
    }
  }
}

async function drained(port: number): Promise<void> {
  const ends = performance.now() + drainMs
  while (performance.now() < ends) {
    const activity = await askActivity(port, activityLimitMs)
    if (activity.kind !== 'counted' || activity.requests === 0) return
    await delay(drainLookMs)
  }
}

/** SIGTERM, and SIGKILL where that does not do. A process that has taken over the number is left alone. */
export async function endProcess(
  { pid, startTime }: Pick<GoServer, 'pid' | 'startTime'>,
  platform: Pick<Platform, 'isRunning'>,
): Promise<void> {
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const ends = performance.now() + graceMs
    if (!(await platform.isRunning({ pid, startTime })) || !signalled(pid, signal)) return
    while (performance.now() < ends) {
      if (!(await platform.isRunning({ pid, startTime }))) return
      await delay(goneLookMs)
    }
  }
}

/** False where there is no such process any more. */
export function signalled(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal)
  } catch (error) {
    if (hasCode(error, 'ESRCH')) return false
    throw error
  }
}
