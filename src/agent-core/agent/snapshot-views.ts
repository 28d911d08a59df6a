import type { AgentRooms } from './agent-rooms.ts'
import { wayView } from '../api/fit.ts'
import type { InferenceService, Model } from '../kube/resources.ts'
import type { Memory } from '../memory/memory.ts'
import { urlForPods } from '../publishing/objects.ts'
import { nameOfDraft } from '../reconcile/draft.ts'
import { clusterAgreement, type Observation } from '../reconcile/plan/observation.ts'
import type { ServiceReport } from '../reconcile/service-report.ts'
import { lifeOf, type Exited, type ServerState } from '../servers/server-state.ts'
import { wallTimeOf } from '../util/steady-clock.ts'
import type { MemoryFiguresView, MemoryStateView } from '../../contract/memory.ts'
import type { CrashView, ServiceFigures, ServiceMemory, ServiceView, Step } from '../../contract/service.ts'

/** What the reconciler knows of one service, as a person is shown it. */
export function serviceViewOf(report: ServiceReport): Omit<ServiceView, 'revision'> {
  const { plan, observed, server, service, model } = report
  const { shown, claim } = observed.publication
  const alive = server && isAlive(server) ? server : undefined
  return {
    namespace: report.namespace,
    name: report.name,
    uid: uidOf(report),
    state: plan.state,
    reason: plan.reason,
    message: plan.message,
    steps: stepsOf(observed, service, model, lifeOf(alive) !== undefined),
    since: wallTimeOf(report.since).toISOString(),
    ...retryOf(plan),
    model: service?.spec.value.modelRef ?? '',
    ...(report.draft && { draft: nameOfDraft(report.draft) }),
    ...(service?.spec.value.contextSize !== undefined && { contextSize: service.spec.value.contextSize }),
    ...(report.runtime !== undefined && { runtime: report.runtime }),
    ...(report.runtimeFrom !== undefined && { runtimeFrom: report.runtimeFrom }),
    ...(alive?.pid !== undefined && { pid: alive.pid }),
    ...(alive?.port !== undefined && { port: alive.port }),
    ...(shown !== undefined && claim === 'ours' && { address: shown.address }),
    ...(observed.publication.service === 'ours' && { url: urlForPods(report.namespace, report.name) }),
    ...(report.logFile !== undefined && { logFile: report.logFile }),
    restarts: report.restarts,
    ...(report.hold && { hold: report.hold }),
    ...(report.lastFailure && { crash: crashOf(report.lastFailure, report.failures) }),
    ...(service && { memory: memoryOf(report, service.spec.value.priority) }),
  }
}

const isAlive = (state: ServerState): state is Extract<ServerState, { kind: 'starting' | 'loading' | 'ready' }> =>
  state.kind === 'starting' || state.kind === 'loading' || state.kind === 'ready'

/** What is ready waits for no next try: when it is looked at again is nothing that a person waits for. */
const retryOf = ({ state, retryAt }: ServiceReport['plan']) =>
  state === 'ready' || retryAt === undefined ? {} : { retryAt: wallTimeOf(retryAt).toISOString() }

/** The memory it needs, and the obstacles to getting it. */
function memoryOf(report: ServiceReport, priority: ServiceMemory['priority']): ServiceMemory {
  const { admission, isProtected, needBytes } = report
  const { place, refusal, sharedWith } = admission
  const { estimate } = admission.need ?? {}
  const notes = [...(estimate?.notes ?? []), ...(sharedWith.length > 0 ? [sharedSentence(sharedWith)] : [])]
  const need = estimate?.total ?? needBytes
  return {
    ...(need !== undefined && { needBytes: need }),
    ...(estimate && { items: estimate.items }),
    ...(estimate?.guess !== undefined && { guess: estimate.guess }),
    ...(notes.length > 0 && { notes }),
    priority,
    isProtected,
    ...(place !== undefined && { place }),
    ...(refusal && { shortage: refusal.brief }),
    ...(refusal && refusal.ways.length > 0 && { waysToFit: refusal.ways.map(wayView) }),
  }
}

const sharedSentence = (keys: readonly string[]): string =>
  `It shares this memory with ${keys.join(', ')}: the memory counts once, and is freed when all of them have left.`

function crashOf({ since, code, signal, message, guess, firstError, memory }: Exited, failures: number): CrashView {
  return {
    at: wallTimeOf(since).toISOString(),
    failures,
    message,
    ...(guess !== undefined && { guess }),
    ...(code !== null && { exitCode: code }),
    ...(signal !== null && { signal }),
    ...(firstError !== undefined && { firstError }),
    ...(memory && { memory }),
  }
}

type FigureRooms = Pick<AgentRooms, 'memory' | 'figures' | 'energy' | 'gateway'>

/** By uid: what changes all the time. */
export function figuresOf(
  reports: readonly ServiceReport[],
  { memory, figures: runtimes, energy, gateway }: FigureRooms,
): Record<string, ServiceFigures> {
  const held = memory.held()
  const known = reports.flatMap((report) => {
    const { key } = report
    const { progress } = report.fetch
    const drain = report.server?.kind === 'stopping' ? report.server.drain : undefined
    const footprintBytes = memory.view?.footprints.get(key)
    const heldBytes = held.get(key)
    const runtime = runtimes.view(key)
    const shareWatts = energy.shareWatts(key)
    const clients = gateway?.openOf(key).map(({ door, address, requests }) => ({ door, address, requests })) ?? []
    const figures = {
      ...(progress && { progress }),
      ...(drain && { requestsInFlight: drain.requestsInFlight }),
      ...(footprintBytes !== undefined && { footprintBytes }),
      ...(heldBytes !== undefined && heldBytes > (footprintBytes ?? 0) && { heldBytes }),
      ...(runtime && { runtime }),
      ...(clients.length > 0 && { gateway: clients }),
      // To a tenth, so that it stays the same while nothing changes that a person can tell.
      ...(shareWatts !== undefined && { powerShareWatts: Math.round(shareWatts * 10) / 10 }),
    }
    return Object.keys(figures).length === 0 ? [] : [[uidOf(report), figures] as const]
  })
  return Object.fromEntries(known)
}

const uidOf = ({ uid, key }: ServiceReport): string => uid ?? key

const done: Step = { status: 'done' }
const waiting: Step = { status: 'waiting' }
const active = (message?: string): Step =>
  message === undefined ? { status: 'active' } : { status: 'active', message }
const failed = (message: string): Step => ({ status: 'failed', message })

/** The five steps from a file to a cluster that agrees, each with what a person should know about it. */
export function stepsOf(
  observed: Pick<Observation, 'fetch' | 'server' | 'publication' | 'clusterRetry'>,
  service: InferenceService | undefined,
  model: Model | undefined,
  hasProcess: boolean,
): ServiceView['steps'] {
  const { fetch, server } = observed
  const running = server.kind === 'starting' || server.kind === 'ready' || server.kind === 'unready'
  const published = observed.publication.shown?.ready === true && observed.publication.claim === 'ours'
  return {
    fetched: running || fetch.kind === 'done' ? done : fetchedStep(fetch),
    started:
      running && hasProcess ? done : running ? active() : server.kind === 'failed' ? failed(server.message) : waiting,
    healthy: server.kind === 'starting' && !hasProcess ? waiting : healthyStep(server),
    published: published ? done : server.kind === 'ready' ? publishedStep(observed) : waiting,
    clusterAgrees: published ? clusterStep(service, model) : waiting,
  }
}

function fetchedStep(fetch: Observation['fetch']): Step {
  if (fetch.kind === 'running') return active()
  return fetch.kind === 'failed' ? failed(fetch.message) : waiting
}

function healthyStep(server: Observation['server']): Step {
  switch (server.kind) {
    case 'ready':
      return done
    case 'starting':
      return active(server.message)
    case 'unready':
      return failed(server.message)
    default:
      return waiting
  }
}

function publishedStep({ clusterRetry, publication }: Pick<Observation, 'clusterRetry' | 'publication'>): Step {
  if (publication.claim === 'foreign' || publication.claim === 'overwritten') return failed(publication.message)
  return clusterRetry ? failed(clusterRetry.message) : active()
}

function clusterStep(service: InferenceService | undefined, model: Model | undefined): Step {
  const agreement = clusterAgreement(service, model)
  switch (agreement.kind) {
    case 'agrees':
      return done
    case 'disagrees':
      return failed(agreement.message)
    case 'pending':
    case 'noController':
      return active(agreement.message)
  }
}

interface EvictionOutlook {
  readonly evictionEnabled: boolean
  readonly next: { readonly key?: string; readonly sentence: string }
}

/** Figures of the view change by steps that a person can tell apart, so that it stays the same while nothing happens. */
const step = 16 * 1024 ** 2
const rounded = (bytes: number): number => Math.round(bytes / step) * step

/** Absent before the first look. */
export function memoryViewOf(
  { view, budget, problem, book, levelSince = Date.now() }: Memory,
  { evictionEnabled, next }: EvictionOutlook,
): MemoryStateView | undefined {
  if (!view) return undefined
  const { committedBytes, promisedBytes, waiting } = book.state()
  return {
    ...(view.figures && { totalBytes: view.figures.totalBytes }),
    ...(budget && { budgetBytes: budget.bytes, budgetHow: budget.how }),
    ...(budget?.gpuLimitBytes !== undefined && { gpuLimitBytes: budget.gpuLimitBytes }),
    ...(budget?.raiseCommand !== undefined && { raiseCommand: budget.raiseCommand }),
    ...((view.problem ?? problem) !== undefined && { problem: view.problem ?? problem }),
    modelsBytes: rounded(committedBytes),
    reservedBytes: rounded(promisedBytes),
    pressure: view.level,
    pressureSince: new Date(levelSince).toISOString(),
    evictionEnabled,
    eviction: next.sentence,
    ...(next.key !== undefined && { nextEviction: next.key }),
    waiting: [...waiting],
  }
}

export function memoryFiguresOf({ view, book }: Memory): MemoryFiguresView | undefined {
  if (!view) return undefined
  const { figures, applications } = view
  return {
    ...(figures && { availableBytes: figures.availableBytes, freeBytes: book.freeBytes }),
    ...(figures?.wiredBytes !== undefined && { wiredBytes: figures.wiredBytes }),
    ...(applications && { applications: applications.map(({ name, bytes }) => ({ name, bytes })) }),
  }
}
