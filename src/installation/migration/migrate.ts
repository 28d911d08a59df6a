import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { connect } from 'node:tls'
import { pinOf } from '../../agent-core/gateway/relay-identity.ts'
import type { KubeApi } from '../../agent-core/kube/kube-api.ts'
import { parseEndpointSlice, parseService, resources } from '../../agent-core/kube/resources.ts'
import { annotations, publishedOf } from '../../agent-core/publishing/objects.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { formatDecimal } from '../../contract/format.ts'
import type { ServiceReason } from '../../contract/service.ts'
import { shellCommand } from '../../contract/shell.ts'
import { InstallationError } from '../installation-host.ts'
import { Heartbeats, isHeldByOurs, publishedName, release, type FoundService } from './cluster.ts'
import { dropKeptIdentity, giveIdentityBack, takeIdentity } from './identity.ts'
import type { Inspection, MigrationWorld } from './inspect.ts'
import type { Transfer } from './plan.ts'
import type { Migration, MigrationRecord } from './record.ts'
import { dropOriginals, moveBack, moveStore } from './store.ts'
import {
  end,
  endOther,
  endProcess,
  giveUp,
  keepPlist,
  pause,
  pauseWhenQuiet,
  restorePlist,
  resume,
} from './take-over.ts'

/** How one service changed hands. */
interface Moved {
  readonly key: string
  /** The time from the withdrawal of the old server until the new one was ready. */
  readonly outageMs: number
  /** Why it is not served here, in one sentence; undefined where it is. */
  readonly failure: string | undefined
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
  if (api === undefined) throw new InstallationError('Without the cluster nothing was started.')
  const begun = record.value?.phase === 'begun' ? record.value : await begin(world, inspection, record)
  try {
    await moveModels(world, inspection, record, begun)
    await moveIdentity(world, inspection, record)
    await startBeside(world, inspection, record, begun)
    const moved = await moveServices(world, { ...inspection, api }, record, begun)
    if (moved === 'takenBack') return { outcome: moved, moved: [], isWell: false }
    await endGoAgent(world, inspection)
    const isWell = await allServe(world, { ...inspection, api })
    await record.note({ phase: 'done' })
    return { outcome: 'done', moved, isWell }
  } catch (error) {
    if (!world.signal.aborted) throw error
    world.tell('Cancelled: everything is being undone.')
    await undo(world, record)
    return { outcome: 'takenBack', moved: [], isWell: false }
  }
}

async function begin(
  { stateDir }: MigrationWorld,
  { job, agent, store: { from, to } }: Inspection,
  record: MigrationRecord,
): Promise<Migration> {
  const whose = job
    ? { job: { file: job.file, program: job.program, kept: await keepPlist(stateDir, job) } }
    : { byHand: agent?.commandLine }
  const startedAt = new Date().toISOString()
  const store = { from, to, moved: [] }
  const begun: Migration = { startedAt, phase: 'begun', ...whose, store, isInstalled: false, transferred: [] }
  await record.begin(begun)
  return begun
}

async function moveModels(
  { tell, signal }: MigrationWorld,
  { store }: Inspection,
  record: MigrationRecord,
  begun: Migration,
): Promise<void> {
  tell(`[1/5] Models: ${store.how === 'copy' ? 'copying' : 'making them known here'}.`)
  const known = new Set(begun.store.moved.map((file) => file.path))
  const note = (file: string): Promise<void> => {
    known.add(file)
    return record.note({ store: { ...begun.store, moved: [...known].map((path) => ({ path })) } })
  }
  await moveStore(store, { tell, signal, note })
}

/** Before this agent starts, which would make an identity of its own. */
async function moveIdentity(
  { tell, stateDir }: MigrationWorld,
  { identity }: Inspection,
  record: MigrationRecord,
): Promise<void> {
  if (!identity) return
  tell(`Copying the identity by which relays know this machine from ${identity.folder}.`)
  await record.note({ identity: identity.folder })
  await takeIdentity(identity.folder, stateDir)
}

async function startBeside(
  world: MigrationWorld,
  { flags }: Inspection,
  record: MigrationRecord,
  { isInstalled }: Migration,
): Promise<void> {
  world.tell('[2/5] Starting this agent beside the Go agent, which keeps serving.')
  // A move that continues repeats an installation that failed, also where the agent has ended since.
  if (!isInstalled || (await world.ownAgent()) === undefined) {
    await record.note({ isInstalled: true })
    await world.service.install(flags)
  }
  await untilLive(world)
}

type WithApi = Inspection & { readonly api: KubeApi }

/** Where the first does not serve here, all is taken back. */
async function moveServices(
  world: MigrationWorld,
  inspection: WithApi,
  record: MigrationRecord,
  { transferred }: Migration,
): Promise<Moved[] | 'takenBack'> {
  const { tell, platform } = world
  const { others, transfers, moved: movedBefore, identity } = inspection
  const count = `${transfers.length} ${transfers.length === 1 ? 'service' : 'services'}`
  tell(`[3/5] ${identity ? 'Ending the Go agent in a quiet moment' : 'Pausing the Go agent'}, and moving ${count}.`)
  for (const other of others) await endOther(other, platform)
  await using move = await (identity ? moveTogether(world, inspection) : moveInTurn(world, inspection))
  const moved: Moved[] = []
  const served: string[] = []
  for (const transfer of transfers) {
    const result = await move.one(transfer)
    moved.push(result)
    if (result.failure === undefined) served.push(result.key)
    else if (movedBefore.length === 0 && served.length === 0) {
      const others = identity ? 'takes all of them back' : 'takes it back, and nothing else was touched'
      tell(`${result.key} is not served here: ${result.failure} The Go agent ${others}.`)
      await undo(world, record)
      return 'takenBack'
    }
    await record.note({ transferred: [...new Set([...transferred, ...served])] })
  }
  return moved
}

interface Move extends AsyncDisposable {
  readonly one: (transfer: Transfer) => Promise<Moved>
}

const keyOf = ({ namespace, name }: FoundService): string => `${namespace}/${name}`

/** One service after the other, while the others answer under the paused Go agent. */
async function moveInTurn(world: MigrationWorld, { api, agent, transfers }: WithApi): Promise<Move> {
  const { signal, tell, platform } = world
  if (agent) await pause(agent, platform)
  const services = transfers.map(({ service }) => service)
  const heartbeats = new Heartbeats(api, services, tell)
  const one = async (transfer: Transfer): Promise<Moved> => {
    const { service } = transfer
    signal.throwIfAborted()
    tell(`${keyOf(service)}: its requests finish, then its server ends.`)
    await heartbeats.leave(service)
    const began = performance.now()
    await giveUp(transfer, api, platform)
    return movedSince(began, world, service)
  }
  return { one, [Symbol.asyncDispose]: () => heartbeats[Symbol.asyncDispose]() }
}

/** Relays reach no server but through the Go agent, whose port is ours only once it has ended. */
async function moveTogether(world: MigrationWorld, { api, job, agent, transfers }: WithApi): Promise<Move> {
  const { signal, platform } = world
  if (agent) await pauseWhenQuiet(agent, platform)
  const began = performance.now()
  if (agent) {
    await end(world, job, [agent])
    await Promise.all(agent.servers.map((server) => endProcess(server, platform)))
  }
  await Promise.all(transfers.map(({ service }) => release(api, service)))
  const one = ({ service }: Transfer): Promise<Moved> => {
    signal.throwIfAborted()
    return movedSince(began, world, service)
  }
  return { one, [Symbol.asyncDispose]: () => Promise.resolve() }
}

async function movedSince(began: number, world: MigrationWorld, service: FoundService): Promise<Moved> {
  const { tell } = world
  const key = keyOf(service)
  const failure = await untilServed(world, service)
  const outageMs = performance.now() - began
  const seconds = formatDecimal(outageMs / 1_000)
  tell(
    `${key}: ${failure === undefined ? `serves here, after ${seconds} s without an answer.` : `is not served here: ${failure}`}`,
  )
  return { key, outageMs, failure }
}

async function endGoAgent(world: MigrationWorld, { job, agent, strays }: Inspection): Promise<void> {
  const { signal, tell, platform } = world
  signal.throwIfAborted()
  tell('[4/5] Ending the Go agent.')
  await end(world, job, agent ? [agent] : [])
  for (const stray of strays) await endProcess(stray, platform)
  // A login would start it again; a copy is kept.
  if (job) await rm(job.file, { force: true })
  // The Go agent had the port for /healthz and /metrics when ours started.
  const snapshot = await world.ownAgent()
  if (snapshot?.notices.some((notice) => notice.startsWith('There is no /healthz')) !== true) return
  tell('Restarting this agent so that it gets the port of /healthz and /metrics; the servers keep running.')
  await world.service.restart()
  await untilLive(world)
}

async function allServe({ signal, tell }: MigrationWorld, { api, moved, transfers }: WithApi): Promise<boolean> {
  tell('[5/5] Checking that everything is there.')
  const services = [...moved, ...transfers.map(({ service }) => service)]
  const checks = await Promise.all(services.map((one) => verify(api, one)))
  for (const { sentence } of checks) tell(sentence)
  signal.throwIfAborted()
  return checks.every(({ isWell }) => isWell)
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
  throw new InstallationError(`The agent was started but cannot read the cluster: ${said}`)
}

/** A server that cannot start for one of these reasons does not serve a minute later either. */
const failures = new Set<ServiceReason>([
  ...(['FetchFailed', 'StartFailed', 'CrashLooping', 'Refused', 'ExtraArgsRejected', 'EnvironmentRejected'] as const),
  ...(['ModelMissing', 'ServiceNameTaken', 'NoHostAddress', 'MemoryExceeded'] as const),
  'ClaimOverwritten',
])

/** Undefined when it serves; one sentence where it does not. */
async function untilServed(
  { ownAgent, signal, tell }: MigrationWorld,
  service: FoundService,
): Promise<string | undefined> {
  const { namespace, name } = service
  let shown = ''
  let wasTaken = false
  let waitsSince: number | undefined
  for (;;) {
    signal.throwIfAborted()
    const view = (await ownAgent())?.services.find((one) => one.namespace === namespace && one.name === name)
    if (view?.state === 'ready') return undefined
    wasTaken ||= view?.state === 'fetching' || view?.state === 'starting'
    if (view && view.message !== shown) {
      shown = view.message
      tell(`${namespace}/${name}: ${shown}`)
    }
    // Until the watch has told the agent that the service was given up, it shows the Go agent as the one that publishes it.
    const isStillTheirs = view?.state === 'foreign' && !wasTaken
    if (view && !isStillTheirs && (view.state === 'refused' || failures.has(view.reason))) return view.message
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

/** One sentence about a service that was moved; `isWell` where nothing is missing. Never rejects. */
async function verify(
  api: KubeApi,
  service: FoundService,
): Promise<{ readonly isWell: boolean; readonly sentence: string }> {
  const { namespace, spec, isRelayed } = service
  const key = keyOf(service)
  try {
    const place = publishedName(service)
    const slice = parseEndpointSlice(await api.get(resources.endpointSlices, namespace, place))
    const { clusterIP = place } = parseService(await api.get(resources.services, namespace, place)).spec
    const published = publishedOf(slice)
    if (!isHeldByOurs(slice) || published?.ready !== true) {
      return { isWell: false, sentence: `${key}: its EndpointSlice is not one of this agent's that is ready.` }
    }
    const { address, port, enginePort } = published
    const where = `${key}: Service ${clusterIP} leads to ${address}:${port}, which`
    if (isRelayed) {
      const isKnown = (await pinAt(address, port)) === slice.metadata.annotations[annotations.ingressPin]
      if (!isKnown) return { isWell: false, sentence: `${where} does not present the key that relays know.` }
      const said = await answerOf('127.0.0.1', enginePort ?? 0, spec.mode)
      return { isWell: true, sentence: `${where} presents the key that relays know; its server ${said}.` }
    }
    return await answerOf(address, port, spec.mode).then(
      (said) => ({ isWell: true, sentence: `${where} ${said}.` }),
      (error: unknown) => ({ isWell: false, sentence: `${where} does not answer: ${messageOf(error)}` }),
    )
  } catch (error) {
    return { isWell: false, sentence: `${key}: ${messageOf(error)}` }
  }
}

/** Of what answers there, or at loopback where this machine does not reach itself by its address. */
async function pinAt(address: string, port: number): Promise<string | undefined> {
  const shown = (host: string): Promise<string | undefined> => pinShown(host, port).catch(() => undefined)
  return (await shown(address)) ?? shown('127.0.0.1')
}

async function pinShown(host: string, port: number): Promise<string | undefined> {
  // Relays trust the key alone.
  const socket = connect({ host, port, rejectUnauthorized: false })
  try {
    await once(socket, 'secureConnect', { signal: AbortSignal.timeout(connectLimitMs) })
    const shown = socket.getPeerX509Certificate()
    return shown && pinOf(shown)
  } finally {
    socket.destroy()
  }
}

/** Asks the server by the published address, or by loopback where this machine does not reach itself by that. */
export async function answerOf(address: string, port: number, mode: string | undefined): Promise<string> {
  const isReached = await statusOf(`http://${address}:${port}/health`, connectLimitMs).then(
    () => true,
    () => false,
  )
  const base = `http://${isReached ? address : '127.0.0.1'}:${port}`
  const how = isReached ? '' : ' (asked over loopback, because this machine does not reach itself at that address)'
  if (mode === 'embedding' || mode === 'rerank') {
    const status = await statusOf(`${base}/health`, answerLimitMs)
    if (status !== 200) throw new Error(`/health answers ${status}.`)
    return `is healthy${how}`
  }
  const question = { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 1 }
  const status = await statusOf(`${base}/v1/chat/completions`, answerLimitMs, question)
  if (status !== 200) throw new Error(`a completion was answered by ${status}.`)
  return `answers a completion${how}`
}

/** What answers at the port may be anything, so that the rest of the answer is not read. */
async function statusOf(url: string, limitMs: number, question?: object): Promise<number> {
  const headers = { 'content-type': 'application/json' }
  const { status, body } = await fetch(url, {
    signal: AbortSignal.timeout(limitMs),
    ...(question && { method: 'POST', headers, body: JSON.stringify(question) }),
  })
  await body?.cancel()
  return status
}

/** The Go agent runs again with its own flags, plist and store, and nothing of ours does. Run again it continues from where it stood. */
export async function undo(world: MigrationWorld, record: MigrationRecord): Promise<void> {
  const done = record.value
  if (done === undefined || done.phase === 'undone') {
    throw new InstallationError('There is no migration to undo.')
  }
  const { tell, service } = world
  // A move that is half taken back can be neither confirmed nor continued.
  await record.note({ phase: 'undoing' })
  if (done.isInstalled) {
    tell('Ending this agent, which gives its services back.')
    await service.uninstall()
    await record.note({ isInstalled: false })
  }
  tell('Restoring models and plist.')
  await moveBack(storeOf(done))
  if (done.identity !== undefined) await giveIdentityBack(done.identity, world.stateDir)
  if (done.job) await restorePlist(done.job)
  await resume(world, done)
  await record.note({ phase: 'undone', transferred: [] })
}

/** Removes what was kept for {@link undo}; says what is left for a person to do. */
export async function confirm({ tell, stateDir }: MigrationWorld, record: MigrationRecord): Promise<void> {
  const done = record.value
  if (done?.phase !== 'done') throw new InstallationError('There is no finished migration to confirm.')
  const store = storeOf(done)
  const dropped = await dropOriginals(store)
  if (done.job) await rm(done.job.kept, { force: true })
  await dropKeptIdentity(stateDir)
  await record.clear()
  if (dropped > 0) {
    const [files, models] =
      dropped === 1 ? ['1 file', 'is gone; its model is'] : [`${dropped} files`, 'are gone; their models are']
    tell(`${files} in ${store.from} ${models} in ${store.to}.`)
  }
  tell(
    `The migration is final. What is left of the Go agent: ${shellCommand(['sudo', 'rm', done.job?.program ?? '/usr/local/bin/llmkube-metal-agent'])}`,
  )
}

const storeOf = ({ store: { from, to, moved } }: Migration) => ({ from, to, files: moved.map((file) => file.path) })
