import { hostPlatform } from '../../agent-core/platform/host.ts'
import { lockHolder, startTimeOf } from '../../agent-core/state/lock.ts'
import { lockFileIn } from '../../agent-core/state/state-folder.ts'
import { LinkError } from '../../contract/client.ts'
import type { Agents } from '../../installation/service/hand-over.ts'
import { connect } from '../agent-session.ts'
import type { CliIo } from '../io.ts'

/** Agents by the sockets of their state folders. */
export function agentsOf(io: CliIo): Agents {
  const platform = hostPlatform()
  const holderOf = (stateDir: string) =>
    lockHolder({ file: lockFileIn(stateDir), processStartTime: (pid) => startTimeOf(platform, pid) })
  return {
    look: (stateDir) =>
      undefinedWhereSilent(async () => {
        await using agent = await connect({ io, stateDir })
        const { version, startedAt, services } = await agent.snapshot()
        const serverPids = services.flatMap(({ pid }) => (pid === undefined ? [] : [pid]))
        const serving = services.filter(({ pid }) => pid !== undefined).map((one) => `${one.namespace}/${one.name}`)
        return { pid: (await holderOf(stateDir))?.pid, version, startedAt, serverPids, serving }
      }),
    leave: async (stateDir) =>
      (await undefinedWhereSilent(async () => {
        await using agent = await connect({ io, stateDir })
        const { outcome, message } = await agent.command({ name: 'shutdown', keepServing: true })
        return outcome === 'accepted' || outcome === 'done' ? 'leaves' : { refused: message }
      })) ?? 'silent',
  }
}

async function undefinedWhereSilent<T>(ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask()
  } catch (error) {
    if (error instanceof LinkError) return undefined
    throw error
  }
}
