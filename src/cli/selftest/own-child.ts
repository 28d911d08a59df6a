import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import { signalGroup } from '../../agent-core/util/signal-group.ts'

interface ChildOptions {
  readonly cwd?: string
  /** It has a child that ends at once, and that it never reaps: a shell that became another program knows nothing of its children. */
  readonly hasZombie?: boolean
}

/** A process of ours, in a group of its own, that does nothing until the leftovers are taken away. Throws where it cannot be started. */
export async function sleepingChild(
  leftovers: AsyncDisposableStack,
  { cwd, hasZombie = false }: ChildOptions = {},
): Promise<number> {
  if (leftovers.disposed) throw new Error('the time is up')
  const script = `${hasZombie ? 'sleep 0.1 & ' : ''}echo up; exec sleep ${longestSeconds}`
  const child = spawn('/bin/sh', ['-c', script], {
    cwd,
    env: { PATH: '/bin:/usr/bin' },
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  })
  const ended = once(child, 'close')
  const { pid } = child
  if (pid !== undefined) {
    leftovers.defer(async () => {
      signalGroup(pid, 'SIGKILL')
      await ended
    })
  }
  await Promise.race([once(child.stdout, 'data'), ended])
  if (pid === undefined || child.exitCode !== null) throw new Error('no process could be started')
  return pid
}

/** Asked again for a while: a process that becomes another program, or ends, takes a moment. */
export async function settled<T>(ask: () => Promise<T>, isSettled: (answer: T) => boolean): Promise<T> {
  const until = performance.now() + settleMs
  let answer = await ask()
  while (!isSettled(answer) && performance.now() < until) {
    await setTimeout(settleMs / 20)
    answer = await ask()
  }
  return answer
}

const settleMs = 2_000

/** It ends by itself where this process was killed before it could end it. */
const longestSeconds = 60
