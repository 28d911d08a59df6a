import { rm } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { shellCommand } from '../../contract/shell.ts'
import { InstallationError } from '../installation-host.ts'
import * as goAgent from './go-agent-life.ts'
import { readJob } from './go-agent-job.ts'
import { findGoAgents } from './go-agent-processes.ts'
import type { MigrationWorld } from './migration-world.ts'
import type { Migration, MigrationRecord } from './record.ts'
import { dropOriginals, moveBack } from './store-move.ts'

const lookEveryMs = 200
const startLimitMs = 20_000

/** The Go agent runs again with its own flags, plist and store, and nothing of ours does. Run again it goes on from where it stood. */
export async function undo(world: MigrationWorld, record: MigrationRecord): Promise<void> {
  const done = record.value
  if (done === undefined || done.phase === 'undone') {
    throw new InstallationError('There is no migration to be taken back.')
  }
  const { tell, service } = world
  // Half taken back it is no move that could be confirmed or gone on with.
  await record.note({ phase: 'undoing' })
  if (done.isInstalled) {
    tell('Ending this agent, which gives its services back.')
    await service.uninstall()
    await record.note({ isInstalled: false })
  }
  tell('Putting models and plist back.')
  await moveBack(done.store)
  if (done.job) await goAgent.restorePlist(done.job)
  await goOn(world, done)
  await record.note({ phase: 'undone', transferred: [] })
}

/** A paused Go agent that still has servers goes on with them; else a fresh one starts everything at once. */
async function goOn(world: MigrationWorld, { job: kept, byHand }: Migration): Promise<void> {
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
  for (;;) {
    const [agent] = await findGoAgents(platform, job, undefined)
    if (agent) {
      tell(`The Go agent runs again (process ${agent.pid}) and loads its models.`)
      return
    }
    if (performance.now() > ends)
      throw new InstallationError(
        `${job.label} was loaded, and no process of it is there: its log ${job.logFile ?? ''} says why.`,
      )
    await delay(lookEveryMs)
  }
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
