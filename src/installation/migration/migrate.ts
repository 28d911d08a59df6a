import { formatDecimal } from '../../contract/format.ts'
import type { KubeApi } from '../../agent-core/kube/kube-api.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { InstallationError } from '../installation-host.ts'
import * as goAgent from './go-agent-life.ts'
import { textOf } from './go-agent-flags.ts'
import { giveUp } from './hand-over.ts'
import { Heartbeats } from './heartbeats.ts'
import type { Inspection } from './inspect.ts'
import type { MigrationWorld } from './migration-world.ts'
import { untilLive, untilServed } from './own-agent.ts'
import type { Transfer } from './plan.ts'
import type { Migration, MigrationRecord, MovedFile } from './record.ts'
import { moveStore } from './store-move.ts'
import { undo } from './undo.ts'
import { verify } from './verify.ts'

/** How one service changed hands. */
export interface Moved {
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

/** What the inspection planned. Throws where it stands in the middle; run again it goes on from there. */
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
  { job, agents, command, plan }: Inspection,
  record: MigrationRecord,
): Promise<Migration> {
  const [agent] = agents
  const optional = {
    namespace: textOf(command, 'namespace') || undefined,
    kubeconfig: textOf(command, 'kubeconfig') || job?.environment['KUBECONFIG'],
    context: textOf(command, 'kube-context') || undefined,
  }
  const begun: Migration = {
    startedAt: new Date().toISOString(),
    phase: 'begun',
    ...(job
      ? {
          job: {
            file: job.file,
            label: job.label,
            domain: job.domain,
            program: job.program,
            kept: await goAgent.keepPlist(stateDir, job),
          },
        }
      : { byHand: agent?.commandLine }),
    flags: [...plan.flags],
    ...optional,
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
  // An installation that failed, or an agent that ended since, is made good when the move goes on.
  if (!begun.isInstalled || (await world.ownAgent()) === undefined) {
    await record.note({ isInstalled: true })
    await service.install(plan.flags)
  }
  await untilLive(world)

  tell(
    `[3/5] Pausing the Go agent, and moving ${plan.transfers.length} ${plan.transfers.length === 1 ? 'service' : 'services'}.`,
  )
  await goAgent.endOthers(world, others)
  await goAgent.pause(world, agents)
  const results: Moved[] = []
  {
    await using heartbeats = new Heartbeats(
      api,
      plan.transfers.map((transfer) => transfer.service),
      tell,
    )
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
  const checks = await Promise.all(
    [...plan.moved, ...plan.transfers.map((transfer) => transfer.service)].map((one) =>
      verify(api, one).catch((error: unknown) => ({
        isWell: false,
        sentence: `${one.namespace}/${one.name}: ${messageOf(error)}`,
      })),
    ),
  )
  for (const { sentence } of checks) tell(sentence)
  signal.throwIfAborted()
  await record.note({ phase: 'done' })
  return { outcome: 'done', moved: results, isWell: checks.every(({ isWell }) => isWell) }
}

async function moveOne(
  world: MigrationWorld,
  api: KubeApi,
  transfer: Transfer,
  heartbeats: Heartbeats,
): Promise<Moved> {
  const { service } = transfer
  const key = `${service.namespace}/${service.name}`
  world.signal.throwIfAborted()
  world.tell(`${key}: its requests finish, then its server ends.`)
  await heartbeats.leave(service)
  const began = performance.now()
  await giveUp(transfer, { api, platform: world.platform })
  const failure = await untilServed(world, service)
  const outageMs = performance.now() - began
  if (failure === undefined)
    world.tell(`${key}: serves here, after ${formatDecimal(outageMs / 1_000)} s without an answer.`)
  else world.tell(`${key}: is not served here: ${failure}`)
  return { key, outageMs, ...(failure !== undefined && { failure }) }
}

/** The port for /healthz and /metrics was the Go agent's when ours started. */
async function takePort(world: MigrationWorld): Promise<void> {
  const snapshot = await world.ownAgent()
  if (snapshot?.notices.some((notice) => notice.startsWith('There is no /healthz')) !== true) return
  world.tell('Starting this agent again, so that it gets the port of /healthz and /metrics; the servers run on.')
  await world.service.restart()
  await untilLive(world)
}
