import { setTimeout as delay } from 'node:timers/promises'
import { InstallationError } from '../installation-host.ts'
import type { ServiceManager, ServicePlan, LastExit } from './service-plan.ts'

/** The agent of a state folder, as far as its service has to know; the one who installs looks it up. */
export interface Agents {
  /** Undefined where none answers. Takes no longer than a few seconds. */
  look(stateDir: string): Promise<AgentLook | undefined>
  /** Has it end and its servers go on; `silent` where none answers. One sentence where it refuses. */
  leave(stateDir: string): Promise<'leaves' | 'silent' | { readonly refused: string }>
}

export interface AgentLook {
  /** Who has the lock of the state folder. */
  readonly pid: number | undefined
  readonly version: string
  readonly startedAt: string
  /** Of the model servers that it has now. */
  readonly serverPids: readonly number[]
  /** The services that have one, as namespace/name. */
  readonly serving: readonly string[]
}

/** What a change of a service goes on with. */
export interface ServiceWork {
  readonly agents: Agents
  /** Says in one sentence what is waited for. */
  readonly tell: (sentence: string) => void
  readonly timings?: Timings
}

export interface Timings {
  readonly pollMs: number
  /** An agent that leaves its servers ends within seconds; one that does not is ended. */
  readonly leaveMs: number
  /** Reading the state folder and taking servers over takes about a second. */
  readonly startMs: number
}

const usualTimings: Timings = { pollMs: 250, leaveMs: 20_000, startMs: 20_000 }

export const stateDirOf = ({ flags }: Pick<ServicePlan, 'flags'>): string => flags.get('state-dir') ?? ''

/**
 * Ends the agent of the service, and its servers go on for the next one: on request, or by SIGKILL where it does not answer. Answers the
 * look of before; undefined where it did not run or another agent has the state folder. Throws InstallationError.
 */
export async function leaveServers(
  manager: ServiceManager,
  plan: ServicePlan,
  work: ServiceWork,
): Promise<AgentLook | undefined> {
  const { agents, timings = usualTimings } = work
  const { pid } = await manager.state()
  if (pid === undefined) return undefined
  const stateDir = stateDirOf(plan)
  const look = await agents.look(stateDir)
  if (look?.pid !== undefined && look.pid !== pid) {
    work.tell(`The service waits for the agent that runs as process ${look.pid}; its own process ${pid} is ended.`)
    await killed(manager, pid, timings)
    return undefined
  }
  const answer = await agents.leave(stateDir)
  if (typeof answer === 'object') throw new InstallationError(answer.refused)
  const hasLeft = async () => (await manager.state()).pid !== pid
  if (answer === 'leaves' && (await until(hasLeft, timings.leaveMs, timings.pollMs))) return look
  work.tell(`Process ${pid} does not answer and is killed; its servers go on.`)
  await killed(manager, pid, timings)
  return look
}

/** Unloads the service, whose agent withdraws, drains and stops where it still runs. Throws InstallationError. */
export async function unloaded(
  manager: ServiceManager,
  how: { readonly forGood: boolean; readonly limitMs: number },
  { tell, timings = usualTimings }: ServiceWork,
): Promise<void> {
  const before = await manager.state()
  if (before.isLoaded || before.pid !== undefined) await manager.unload(how)
  if (before.pid !== undefined) {
    const soon = await until(async () => (await manager.state()).pid === undefined, timings.leaveMs / 4, timings.pollMs)
    if (soon) return
    tell(`Process ${before.pid} withdraws its models and lets requests in flight finish.`)
  }
  const isGone = await until(async () => (await manager.state()).pid === undefined, how.limitMs, timings.pollMs)
  if (!isGone) {
    throw new InstallationError(
      `Process ${before.pid ?? 0} of ${manager.name} has not ended within ${Math.round(how.limitMs / 1000)} s: see what it waits for with metal-agent status, then repeat this.`,
    )
  }
}

async function killed(manager: ServiceManager, pid: number, { leaveMs, pollMs }: Timings): Promise<void> {
  await manager.kill()
  if (await until(async () => (await manager.state()).pid !== pid, leaveMs, pollMs)) return
  throw new InstallationError(
    `Process ${pid} of ${manager.name} was killed and is still there: it hangs in the kernel, which a restart of the machine ends.`,
  )
}

export type Started =
  | { readonly kind: 'answers'; readonly pid: number; readonly look: AgentLook }
  /** Another agent has the state folder. */
  | { readonly kind: 'waits'; readonly pid: number; readonly holder: number }
  /** It runs and does not answer yet. */
  | { readonly kind: 'silent'; readonly pid: number }
  | { readonly kind: 'ended'; readonly lastExit: LastExit | undefined }

/** What became of a start; with `servers`, also whether the new agent has them. Throws InstallationError. */
export async function startedAs(
  manager: ServiceManager,
  plan: ServicePlan,
  { agents, timings = usualTimings }: ServiceWork,
  servers: readonly number[] = [],
): Promise<Started> {
  let found: Started = { kind: 'ended', lastExit: undefined }
  await until(
    async () => {
      const { pid, lastExit } = await manager.state()
      if (pid === undefined) {
        found = { kind: 'ended', lastExit }
        return false
      }
      const look = await agents.look(stateDirOf(plan))
      found = look === undefined ? { kind: 'silent', pid } : judged(pid, look)
      return (
        found.kind === 'waits' || (found.kind === 'answers' && servers.every((one) => look?.serverPids.includes(one)))
      )
    },
    timings.startMs,
    timings.pollMs,
  )
  return found
}

const judged = (pid: number, look: AgentLook): Started =>
  look.pid === undefined || look.pid === pid ? { kind: 'answers', pid, look } : { kind: 'waits', pid, holder: look.pid }

async function until(isSo: () => Promise<boolean>, limitMs: number, pollMs: number): Promise<boolean> {
  const end = performance.now() + limitMs
  for (;;) {
    if (await isSo()) return true
    if (performance.now() >= end) return false
    await delay(pollMs)
  }
}
