import { rm } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import type { KubeApi } from '../../agent-core/kube/kube-api.ts'
import { parseEndpointSlice, parseService, resources } from '../../agent-core/kube/resources.ts'
import { publishedOf, serviceNameOf } from '../../agent-core/publishing/objects.ts'
import { parseJson } from '../../agent-core/util/files.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { formatDecimal } from '../../contract/format.ts'
import type { ServiceReason } from '../../contract/service.ts'
import { shellCommand } from '../../contract/shell.ts'
import { InstallationError } from '../installation-host.ts'
import { isHeldByOurs, type FoundService } from './cluster-look.ts'
import { findGoAgents, readJob } from './go-agent.ts'
import type { Inspection, MigrationWorld } from './inspect.ts'
import type { Transfer } from './plan.ts'
import type { Migration, MigrationRecord, MovedFile } from './record.ts'
import { dropOriginals, moveBack, moveStore } from './store.ts'
import * as goAgent from './take-over.ts'

/** How one service changed hands. */
interface Moved {
  readonly key: string
  /** From the moment nobody was sent to the old server until the new one was ready. */
  readonly outageMs: number
  /** Absent where it serves; one sentence. */
  readonly failure?: string
}

export interface MigrationResult {
  /** `takenBack`: the Go agent runs again as before. */
  readonly outcome: 'done' | 'takenBack'
  readonly moved: readonly Moved[]
  /** All that was promised is there. */
  readonly isWell: boolean
}

/** Does what the inspection planned. Throws where it stops in the middle; run again it continues from there. */
export async function migrate(
  world: MigrationWorld,
  inspection: Inspection,
  record: MigrationRecord,
): Promise<MigrationResult> {
  const { api } = inspection
  if (api === undefined) throw new InstallationError('Without the cluster nothing was begun.')
  const begun = record.value?.phase === 'begun' ? record.value : await begin(world, inspection, record)
  try {
    return await carriedOut({ world, inspection, record, api }, begun)
  } catch (error) {
    if (!world.signal.aborted) throw error
    world.tell('Given up: everything is taken back.')
    await undo({ ...world, signal: new AbortController().signal }, record)
    return { outcome: 'takenBack', moved: [], isWell: false }
  }
}

interface Work {
  readonly world: MigrationWorld
  readonly inspection: Inspection
  readonly record: MigrationRecord
  readonly api: KubeApi
}

async function begin(
  { stateDir }: MigrationWorld,
  { job, agents, plan }: Inspection,
  record: MigrationRecord,
): Promise<Migration> {
  const [agent] = agents
  const moved = job && {
    ...{ file: job.file, label: job.label, domain: job.domain, program: job.program },
    kept: await goAgent.keepPlist(stateDir, job),
  }
  const begun: Migration = {
    startedAt: new Date().toISOString(),
    phase: 'begun',
    ...(moved ? { job: moved } : { byHand: agent?.commandLine }),
    store: { from: plan.store.from, to: plan.store.to, moved: [] },
    isInstalled: false,
    transferred: [],
  }
  await record.begin(begun)
  return begun
}

async function carriedOut({ world, inspection, record, api }: Work, begun: Migration): Promise<MigrationResult> {
  const { tell, signal, service } = world
  const { job, agents, others, plan } = inspection
  tell(`[1/5] Models: ${plan.store.how === 'copy' ? 'copying' : 'making them known here'}.`)
  const known = new Map(begun.store.moved.map((file) => [file.path, file]))
  const note = (file: MovedFile): Promise<void> => {
    known.set(file.path, file)
    return record.note({ store: { ...begun.store, moved: [...known.values()] } })
  }
  for (const file of await moveStore(plan.store, { tell, signal, note })) await note(file)

  tell('[2/5] Starting this agent beside the Go agent, which serves on.')
  // A move that continues repeats an installation that failed, also where the agent has ended since.
  if (!begun.isInstalled || (await world.ownAgent()) === undefined) {
    await record.note({ isInstalled: true })
    await service.install(plan.flags)
  }
  await untilLive(world)

  const services = plan.transfers.map((transfer) => transfer.service)
  tell(`[3/5] Pausing the Go agent, and moving ${services.length} ${services.length === 1 ? 'service' : 'services'}.`)
  await goAgent.endOthers(world, others)
  await goAgent.pause(world, agents)
  const results: Moved[] = []
  {
    await using heartbeats = new goAgent.Heartbeats(api, services, tell)
    for (const transfer of plan.transfers) {
      const result = await moveOne(world, api, transfer, heartbeats)
      results.push(result)
      const isFirst = plan.moved.length === 0 && results.every(({ failure }) => failure !== undefined)
      if (result.failure !== undefined && isFirst) {
        tell(
          `${result.key} is not served here: ${result.failure} The Go agent takes it back, and nothing else was touched.`,
        )
        await undo(world, record)
        return { outcome: 'takenBack', moved: results, isWell: false }
      }
      const served = results.filter(({ failure }) => failure === undefined).map(({ key }) => key)
      await record.note({ transferred: [...new Set([...begun.transferred, ...served])] })
    }
  }

  signal.throwIfAborted()
  tell('[4/5] Ending the Go agent.')
  await goAgent.end(world, job, agents)
  await goAgent.endServers(world, plan.strays)
  if (job) await goAgent.removePlist(job)
  await takePort(world)

  tell('[5/5] Looking whether everything is there.')
  const checks = await Promise.all([...plan.moved, ...services].map((one) => verify(api, one)))
  for (const { sentence } of checks) tell(sentence)
  signal.throwIfAborted()
  await record.note({ phase: 'done' })
  return { outcome: 'done', moved: results, isWell: checks.every(({ isWell }) => isWell) }
}

async function moveOne(
  world: MigrationWorld,
  api: KubeApi,
  transfer: Transfer,
  heartbeats: goAgent.Heartbeats,
): Promise<Moved> {
  const { service } = transfer
  const key = `${service.namespace}/${service.name}`
  world.signal.throwIfAborted()
  world.tell(`${key}: its requests finish, then its server ends.`)
  await heartbeats.leave(service)
  const began = performance.now()
  await goAgent.giveUp(transfer, { api, platform: world.platform })
  const failure = await untilServed(world, service)
  const outageMs = performance.now() - began
  const seconds = formatDecimal(outageMs / 1_000)
  world.tell(
    `${key}: ${failure === undefined ? `serves here, after ${seconds} s without an answer.` : `is not served here: ${failure}`}`,
  )
  return { key, outageMs, ...(failure !== undefined && { failure }) }
}

/** The Go agent had the port for /healthz and /metrics when ours started. */
async function takePort(world: MigrationWorld): Promise<void> {
  const snapshot = await world.ownAgent()
  if (snapshot?.notices.some((notice) => notice.startsWith('There is no /healthz')) !== true) return
  world.tell('Starting this agent again, so that it gets the port of /healthz and /metrics; the servers run on.')
  await world.service.restart()
  await untilLive(world)
}

const lookEveryMs = 200
const liveLimitMs = 90_000
/** For memory that macOS gives back late. */
const waitingLimitMs = 60_000

/** Waits until our agent sees the cluster. Throws InstallationError. */
async function untilLive({ ownAgent, signal }: MigrationWorld): Promise<void> {
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

/** A server that cannot start for one of these reasons does not serve a minute later either. */
const failures = new Set<ServiceReason>([
  ...(['FetchFailed', 'StartFailed', 'CrashLooping', 'Refused', 'ExtraArgsRejected', 'EnvironmentRejected'] as const),
  ...(['ModelMissing', 'ServiceNameTaken', 'NoHostAddress', 'HeldAfterPanic', 'MemoryExceeded'] as const),
  'ClaimOverwritten',
])

/** Undefined when it serves; one sentence where it does not. */
async function untilServed(
  { ownAgent, signal, tell }: MigrationWorld,
  service: FoundService,
): Promise<string | undefined> {
  const { namespace, name } = service
  let shown = ''
  let waitsSince: number | undefined
  for (;;) {
    signal.throwIfAborted()
    const view = (await ownAgent())?.services.find((one) => one.namespace === namespace && one.name === name)
    if (view?.state === 'ready') return undefined
    if (view && view.message !== shown) {
      shown = view.message
      tell(`${namespace}/${name}: ${shown}`)
    }
    if (view && (view.state === 'refused' || failures.has(view.reason))) return view.message
    const waits = view === undefined || view.state === 'waiting' || view.state === 'foreign' || view.state === 'stopped'
    waitsSince = waits ? (waitsSince ?? performance.now()) : undefined
    if (waitsSince !== undefined && performance.now() - waitsSince > waitingLimitMs) {
      return view?.message ?? 'The agent no longer answers.'
    }
    await delay(lookEveryMs)
  }
}

const answerLimitMs = 60_000
const connectLimitMs = 5_000
/** The answer with one token has a few KiB; what answers at the port may be anything. */
const maxAnswerBytes = 1024 * 1024

const completion = z.object({ choices: z.array(z.unknown()).min(1) })

/** One sentence about a service that was moved; `isWell` where nothing is missing. Never rejects. */
async function verify(
  api: KubeApi,
  { namespace, name, spec }: FoundService,
): Promise<{ readonly isWell: boolean; readonly sentence: string }> {
  let where = `${namespace}/${name}`
  try {
    const place = serviceNameOf(name)
    const slice = parseEndpointSlice(await api.get(resources.endpointSlices, namespace, place))
    const { clusterIP = place } = parseService(await api.get(resources.services, namespace, place)).spec
    const published = publishedOf(slice)
    if (!isHeldByOurs(slice) || published?.ready !== true) {
      return { isWell: false, sentence: `${where}: its EndpointSlice is not one of this agent's that is ready.` }
    }
    const { address, port } = published
    where = `${where}: Service ${clusterIP} leads to ${address}:${port}, which does not answer`
    const said = await answerOf(address, port, spec.mode)
    return { isWell: true, sentence: `${where.replace(/does not answer$/, said)}.` }
  } catch (error) {
    return { isWell: false, sentence: `${where}: ${messageOf(error)}` }
  }
}

/** Asks the server by the published address, or by loopback where this machine does not reach itself by that. */
export async function answerOf(address: string, port: number, mode: string | undefined): Promise<string> {
  const health = async (base: string, limitMs: number): Promise<number> => {
    const { status, body } = await fetch(`${base}/health`, { signal: AbortSignal.timeout(limitMs) })
    await body?.cancel()
    return status
  }
  const isReached = await health(`http://${address}:${port}`, connectLimitMs).then(
    () => true,
    () => false,
  )
  const base = `http://${isReached ? address : '127.0.0.1'}:${port}`
  const how = isReached ? '' : ' (asked by loopback, for this machine does not reach itself by its address)'
  if (mode === 'embedding' || mode === 'rerank') {
    const status = await health(base, answerLimitMs)
    if (status !== 200) throw new Error(`/health answers ${status}.`)
    return `is healthy${how}`
  }
  const response = await fetch(`${base}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'Hello' }], max_tokens: 1 }),
    signal: AbortSignal.timeout(answerLimitMs),
  })
  if (!response.ok) throw new Error(`a completion was answered by ${response.status}.`)
  completion.parse(parseJson(await boundedText(response)))
  return `answers a completion${how}`
}

async function boundedText(response: Response): Promise<string> {
  const body: ReadableStream<Uint8Array> | null = response.body
  const pieces: Uint8Array[] = []
  let length = 0
  // Leaving the loop ends the connection.
  for await (const piece of body ?? []) {
    length += piece.byteLength
    if (length > maxAnswerBytes) throw new Error(`a completion has more than ${maxAnswerBytes / 1024} KiB.`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString('utf8')
}

const startLimitMs = 20_000

/** The Go agent runs again with its own flags, plist and store, and nothing of ours does. Run again it continues from where it stood. */
export async function undo(world: MigrationWorld, record: MigrationRecord): Promise<void> {
  const done = record.value
  if (done === undefined || done.phase === 'undone') {
    throw new InstallationError('There is no migration to be taken back.')
  }
  const { tell, service } = world
  // A move that is half taken back can be neither confirmed nor continued.
  await record.note({ phase: 'undoing' })
  if (done.isInstalled) {
    tell('Ending this agent, which gives its services back.')
    await service.uninstall()
    await record.note({ isInstalled: false })
  }
  tell('Putting models and plist back.')
  await moveBack(done.store)
  if (done.job) await goAgent.restorePlist(done.job)
  await resumeGoAgent(world, done)
  await record.note({ phase: 'undone', transferred: [] })
}

/** A paused Go agent that still has servers continues with them; otherwise a fresh one starts everything at once. */
async function resumeGoAgent(world: MigrationWorld, { job: kept, byHand }: Migration): Promise<void> {
  const { platform, tell } = world
  const reading = kept && (await readJob(kept.file, kept.domain === 'system' ? 'system' : `gui/${world.host.user.id}`))
  const job = reading?.ok === true ? reading.job : undefined
  const agents = await findGoAgents(platform, job, undefined)
  if (agents.some(({ servers, suspended }) => servers.length > 0 || !suspended)) {
    goAgent.unpause(agents)
    tell(
      `The Go agent goes on (process ${agents.map(({ pid }) => pid).join(', ')}); what it finds missing it starts again within half a minute.`,
    )
    return
  }
  await goAgent.end(world, job, agents)
  if (!job) {
    tell(`The Go agent was started by hand. To start it again: ${byHand ?? 'as you did'}`)
    return
  }
  await goAgent.startAgain(world, job)
  const ends = performance.now() + startLimitMs
  while (performance.now() < ends) {
    const [agent] = await findGoAgents(platform, job, undefined)
    if (agent) {
      tell(`The Go agent runs again (process ${agent.pid}) and loads its models.`)
      return
    }
    await delay(lookEveryMs)
  }
  throw new InstallationError(
    `${job.label} was loaded, and no process of it is there: its log ${job.logFile ?? ''} says why.`,
  )
}

/** Removes what was kept for {@link undo}; answers what is left for a person to do. */
export async function confirm({ tell }: MigrationWorld, record: MigrationRecord): Promise<void> {
  const done = record.value
  if (done?.phase !== 'done') throw new InstallationError('There is no finished migration to be confirmed.')
  const dropped = await dropOriginals(done.store)
  if (done.job) await rm(done.job.kept, { force: true })
  await record.clear()
  if (dropped > 0) {
    const [files, models] =
      dropped === 1 ? ['1 file', 'is gone; its model is'] : [`${dropped} files`, 'are gone; their models are']
    tell(`${files} in ${done.store.from} ${models} in ${done.store.to}.`)
  }
  tell(
    `The migration is final. What is left of the Go agent: ${shellCommand(['sudo', 'rm', done.job?.program ?? '/usr/local/bin/llmkube-metal-agent'])}`,
  )
}
