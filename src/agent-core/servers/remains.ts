import { setTimeout as delay } from 'node:timers/promises'
import type { PortHolder } from '../platform/platform.ts'
import type { ProcessGroup } from './process-group.ts'
import type { RunContext } from './run-context.ts'
import { killAgainMs, killLimitMs } from './termination.ts'

/** The kernel may need a moment to close what a dead process had open. */
const portLimitMs = 2_000
const portLookMs = 50

interface GroupEnd {
  readonly group: Pick<ProcessGroup, 'gone' | 'signal'>
  /** When the rest of the group is killed, on the monotonic clock. */
  readonly killAt: number
  /** True as soon as another agent is to look after it. */
  readonly isLetGo: () => boolean
  /** Called with every new sentence about processes that do not end. */
  readonly onLeft: (sentence: string) => void
}

/** Ends what is left of the group of a dead leader. Resolves with a sentence where it was let go before all had ended. */
export async function endGroup({ group, killAt, isLetGo, onLeft }: GroupEnd): Promise<string | undefined> {
  let members = await group.gone(killAt)
  let left: string | undefined
  while (members.length > 0) {
    await group.signal('SIGKILL')
    members = await group.gone(performance.now() + (left === undefined ? killLimitMs : killAgainMs))
    if (members.length === 0) break
    const sentence = `Of its processes ${members.map(({ pid }) => pid).join(', ')} did not end although they were killed.`
    if (isLetGo()) return sentence
    if (sentence !== left) onLeft(sentence)
    left = sentence
  }
  return undefined
}

/**
 * The processes that keep the port of a server that ended; undefined where it is free. A process that left the group may do so: it is
 * not ours to signal, but people are told.
 */
export async function keepersOfPort(
  { port, pid }: { readonly port: number; readonly pid: number },
  { ports, platform }: Pick<RunContext, 'ports' | 'platform'>,
): Promise<readonly PortHolder[] | undefined> {
  const deadline = performance.now() + portLimitMs
  for (;;) {
    if (await ports.isFree(port)) return undefined
    const { others } = await platform.portListeners(port, pid)
    if (others.some((holder) => holder.pid !== undefined)) return others
    if (performance.now() >= deadline) return others.length === 0 ? undefined : others
    await delay(portLookMs)
  }
}
