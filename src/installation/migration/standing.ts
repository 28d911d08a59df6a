import type { Platform } from '../../agent-core/platform/platform.ts'
import { findGoAgents } from './go-agent-processes.ts'
import { readMigration, type Migration } from './record.ts'

/** Where a move stands that was left in the middle, and what to do; undefined where none was. */
export async function standingOf(stateDir: string, platform: Pick<Platform, 'processes'>): Promise<string | undefined> {
  const found = await readMigration(stateDir)
  return found && standing(found, platform)
}

/** As {@link standingOf}, of a record that was read already. */
export async function standing(
  { phase, startedAt, isInstalled, transferred, job }: Migration,
  platform: Pick<Platform, 'processes'>,
): Promise<string | undefined> {
  if (phase !== 'begun' && phase !== 'undoing') return undefined
  const agents = await findGoAgents(platform, job, undefined)
  const [agent] = agents.toSorted((one, other) => Number(other.suspended) - Number(one.suspended))
  const where = [
    `This agent is ${isInstalled ? '' : 'not '}installed${phase === 'begun' ? `, and serves ${transferred.join(', ') || 'nothing yet'}` : ''}.`,
    agent === undefined
      ? 'The Go agent does not run.'
      : `The Go agent (process ${agent.pid}) ${agent.suspended ? 'is paused: it looks after nothing, and counts as gone after three minutes of that' : 'runs'}.`,
  ].join(' ')
  return phase === 'begun'
    ? `A move from the Go agent was begun on ${startedAt} and stands in the middle. ${where} "metal-agent migrate" goes on, "metal-agent migrate --undo" goes back.`
    : `A move from the Go agent that was begun on ${startedAt} is being taken back and stands in the middle. ${where} "metal-agent migrate --undo" goes on with that.`
}
