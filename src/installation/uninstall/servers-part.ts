import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { ledgerProcesses } from '../../agent-core/servers/ledger.ts'
import type { Platform } from '../../agent-core/platform/platform.ts'
import { readIfThere } from '../../agent-core/util/files.ts'
import { signalGroup } from '../../agent-core/util/signal-group.ts'
import type { TracePart } from './trace-part.ts'

/** Requests in flight were drained by the agent, where one was there to do it. */
const graceMs = 10_000
const lookMs = 100

/** Servers outlive an agent that crashed; without the state folder nobody would know of them any more. */
export function serversPart(platform: Pick<Platform, 'process' | 'bootId' | 'isRunning'>, stateDir: string): TracePart {
  const running = async () => {
    const text = await readIfThere(path.join(stateDir, 'ledger.json'))
    const known = text === undefined ? [] : ledgerProcesses(text)
    const bootId = await platform.bootId()
    const found = known.map(async (server) => {
      const facts = server.bootId === bootId ? await platform.process(server.pid) : undefined
      // Any other process that has got the number since began at another time.
      return facts?.startTime === server.startTime ? [server] : []
    })
    return (await Promise.all(found)).flat()
  }
  return {
    kind: 'servers',
    look: async () => {
      const servers = await running()
      if (servers.length === 0) return undefined
      const places = servers.map(({ key, pid }) => ({ path: `${key} (process ${pid})` }))
      return { places, byHand: servers.map(({ pid }) => `kill -KILL -- -${pid}`) }
    },
    remove: async () => {
      const servers = await running()
      for (const { pid } of servers) signalGroup(pid, 'SIGTERM')
      const until = performance.now() + graceMs
      for (const server of servers) {
        while ((await platform.isRunning(server)) && performance.now() < until) await delay(lookMs)
        if (await platform.isRunning(server)) signalGroup(server.pid, 'SIGKILL')
      }
    },
  }
}
