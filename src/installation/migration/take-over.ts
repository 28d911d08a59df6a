import { copyFile, mkdir, open, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { isApiError } from '../../agent-core/kube/api-error.ts'
import type { KubeApi } from '../../agent-core/kube/kube-api.ts'
import { parseEndpointSlice, resources, type EndpointSlice } from '../../agent-core/kube/resources.ts'
import { statIfThere } from '../../agent-core/models/store/files.ts'
import type { Platform } from '../../agent-core/platform/platform.ts'
import {
  annotations,
  claimText,
  heartbeatAt,
  heartbeatOf,
  serviceNameOf,
  withdrawPatch,
} from '../../agent-core/publishing/objects.ts'
import { askActivity } from '../../agent-core/servers/probe.ts'
import { hasCode, syncFolder } from '../../agent-core/util/files.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { shellCommand } from '../../contract/shell.ts'
import { InstallationError } from '../installation-host.ts'
import { LaunchctlJob } from '../service/launchd.ts'
import { isHeldByOurs, type FoundService } from './cluster-look.ts'
import type { GoAgentJob, GoAgentProcess, GoServer } from './go-agent.ts'
import type { MigrationWorld } from './inspect.ts'
import type { Transfer } from './plan.ts'
import { migrationFolder } from './record.ts'

type World = Pick<MigrationWorld, 'host' | 'platform'>

/**
 * A paused Go agent notices nothing of what happens to its servers and slices, and its servers run on. Throws InstallationError where
 * launchd has started another one since, which was not looked at, and then pauses none.
 */
export async function pause({ platform }: Pick<World, 'platform'>, agents: readonly GoAgentProcess[]): Promise<void> {
  for (const { pid, startTime } of agents) {
    if (await platform.isRunning({ pid, startTime })) continue
    throw new InstallationError(
      `The Go agent that was looked at, process ${pid}, has ended meanwhile: repeat this, which looks again and continues.`,
    )
  }
  for (const { pid } of agents) signalled(pid, 'SIGSTOP')
}

export const unpause = (agents: readonly GoAgentProcess[]): void =>
  void agents.map(({ pid }) => signalled(pid, 'SIGCONT'))

/**
 * Ends Go agents whose servers are gone. A paused one takes no SIGTERM, and resumed it would start its servers again, so it is killed: it
 * keeps nothing on disk. launchd is told first, so that it starts no other.
 */
export async function end(
  { host, platform }: World,
  job: GoAgentJob | undefined,
  agents: readonly GoAgentProcess[],
): Promise<void> {
  const unload = async ({ domain, label }: GoAgentJob) => {
    const launchd = new LaunchctlJob(host, domain, label)
    if (await launchd.look()) await launchd.unload()
  }
  const unloaded = job && unload(job)
  for (const { pid, startTime } of agents) {
    if (await platform.isRunning({ pid, startTime })) signalled(pid, 'SIGKILL')
  }
  await unloaded
  for (const agent of agents) await endProcess(agent, platform)
}

export async function endServers({ platform }: World, servers: readonly GoServer[]): Promise<void> {
  await Promise.all(servers.map((server) => endProcess(server, platform)))
}

/** Ends Go agents beside the one that is moved, with what they started. */
export async function endOthers(world: World, others: readonly GoAgentProcess[]): Promise<void> {
  for (const other of others) {
    await endProcess(other, world.platform)
    await endServers(world, other.servers)
  }
}

/** Copies the plist into our state folder; resolves to the copy once it is on the disk. The file itself stays for now. */
export async function keepPlist(stateDir: string, { file }: Pick<GoAgentJob, 'file'>): Promise<string> {
  const kept = path.join(migrationFolder(stateDir), path.basename(file))
  await mkdir(path.dirname(kept), { recursive: true, mode: 0o700 })
  if ((await statIfThere(file)) !== undefined) {
    await copyDurably(file, kept)
    // The folder may have been made for it.
    await syncFolder(stateDir)
  }
  return kept
}

/** Content and name survive a power cut, so that the original may be removed afterwards. */
async function copyDurably(from: string, to: string): Promise<void> {
  const beside = `${to}.new`
  await copyFile(from, beside)
  {
    await using copy = await open(beside)
    await copy.sync()
  }
  await rename(beside, to)
  await syncFolder(path.dirname(to))
}

/** So that no login starts it again. */
export const removePlist = ({ file }: GoAgentJob): Promise<void> => rm(file, { force: true })

/** Puts the plist back where it was; another one that is there stays. Throws InstallationError. */
export async function restorePlist({ file, kept }: { readonly file: string; readonly kept: string }): Promise<void> {
  if ((await statIfThere(file)) !== undefined) return
  if ((await statIfThere(kept)) === undefined) {
    throw new InstallationError(
      `The plist ${file} cannot be put back, because its copy ${kept} is gone: install the Go agent again.`,
    )
  }
  await mkdir(path.dirname(file), { recursive: true })
  await copyDurably(kept, file)
}

const startLimitMs = 10_000

/** Has launchd start the Go agent. Throws InstallationError. */
export async function startAgain(
  { host }: World,
  { domain, label, file }: Pick<GoAgentJob, 'domain' | 'label' | 'file'>,
): Promise<void> {
  const launchd = new LaunchctlJob(host, domain, label)
  if (!(await launchd.look())) await launchd.load(file)
  const ends = performance.now() + startLimitMs
  while ((await launchd.look())?.pid === undefined) {
    if (performance.now() > ends)
      throw new InstallationError(
        `launchd loaded ${file} and does not start it: ${shellCommand(['launchctl', 'print', `${domain}/${label}`])} says why.`,
      )
    await launchd.start()
    await delay(200)
  }
}

/** Requests in flight may take as long to finish as with our own agent. */
const drainMs = 30_000
const drainLookMs = 100
const activityLimitMs = 1_000
/** The Go agent waits as long between SIGTERM and SIGKILL. */
const graceMs = 10_000
const goneLookMs = 20
/** Another writer may come in between. */
const writeTries = 5

interface HandOver {
  readonly api: KubeApi
  readonly platform: Pick<Platform, 'isRunning'>
}

/**
 * Takes one service from a paused Go agent: its server gets no new requests, those in flight finish, the server ends, and the slice is
 * marked as given up, so that our agent claims it at once instead of after three minutes of silence.
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

/** Does nothing where there is no slice, or an agent of ours holds it. */
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

/** SIGTERM, then SIGKILL. A process that has got the number since is left alone. */
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

/** False where there is no such process. */
export function signalled(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal)
  } catch (error) {
    if (hasCode(error, 'ESRCH')) return false
    throw error
  }
}

/** The Go agent's own interval. */
const usualEveryMs = 30_000

/** Writes the heartbeats of services whose Go agent is paused. */
export class Heartbeats implements AsyncDisposable {
  readonly #api: KubeApi
  readonly #services: Set<FoundService>
  readonly #tell: (sentence: string) => void
  readonly #timer: NodeJS.Timeout
  #round: Promise<void> = Promise.resolve()

  constructor(
    api: KubeApi,
    services: Iterable<FoundService>,
    tell: (sentence: string) => void,
    everyMs = usualEveryMs,
  ) {
    this.#api = api
    this.#services = new Set(services)
    this.#tell = tell
    this.#timer = setInterval(() => {
      this.#round = this.#round.then(() => this.#renewAll())
    }, everyMs)
  }

  /** From now on our agent writes the heartbeats of this service. */
  async leave(service: FoundService): Promise<void> {
    this.#services.delete(service)
    await this.#round
  }

  async #renewAll(): Promise<void> {
    for (const service of [...this.#services]) {
      try {
        await renewHeartbeat(this.#api, service)
      } catch (error) {
        this.#tell(`The heartbeat of ${service.namespace}/${service.name} was not renewed: ${messageOf(error)}`)
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer)
    await this.#round
  }
}
