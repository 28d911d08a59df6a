import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { AgentWorld } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { askAgainAndAgain } from '../support/endless-requests.ts'
import { eventually } from '../support/eventually.ts'
import { PublishedPort } from '../support/published-port.ts'
import { serversIn } from '../support/servers-in.ts'

const kills = Number(process.env['SWAP_STORM_KILLS'] ?? 8)
const seed = Number(process.env['SWAP_STORM_SEED'] ?? Date.now() % 2 ** 31)
/** After it took over what runs: then come the swaps. */
const lives = fc.sample(fc.integer({ min: 0, max: 4_000 }), { seed, numRuns: kills })
const change = fc.record({
  name: fc.constantFrom('steady', 'other'),
  contextSize: fc.integer({ min: 1, max: 4 }).map((thousands) => thousands * 1024),
  loadMs: fc.integer({ min: 0, max: 800 }),
  pauseMs: fc.integer({ min: 0, max: 2_500 }),
})

const script = fileURLToPath(new URL('agent-that-swaps.ts', import.meta.url))

describe('on a real API server', () => {
  const api = useRealApiServer()

  test(
    `an agent killed ${kills} times among changes of specifications leaves one server per service, and no request fails (seed ${seed})`,
    { timeout: Math.max(600_000, kills * 20_000) },
    async () => {
      await using world = await AgentWorld.open(api().connection)
      const first = await world.startAgent()
      await world.apply('steady')
      await world.apply('other')
      await first.untilReady('other')
      const { port } = await first.untilReady('steady')
      const { stateDir } = first
      await using published = new PublishedPort(api().connection, world.namespace, 'steady')
      await eventually(() => published.now === port)
      await using requests = askAgainAndAgain(() => published.now, { tokens: 30 })
      await first.leave()

      const ended = new AbortController()
      const changing = changeAgainAndAgain(world, ended.signal)
      const logs: string[] = []
      for (const life of lives) logs.push(await lifeOf(await world.preparedAgent(), life))
      const count = (what: string) =>
        logs
          .join('')
          .split('\n')
          .filter((line) => line === what).length
      // On a machine that does much else a swap takes longer than all of these lives.
      for (let life = 8_000; count('successor takes over') === 0 && life <= 64_000; life *= 2) {
        logs.push(await lifeOf(await world.preparedAgent(), life))
      }
      ended.abort()
      await changing

      const last = await world.startAgent()
      await eventually(
        async () => {
          const servers = await serversIn(stateDir)
          expect(servers.map(({ name }) => name).sort()).toEqual(['other', 'steady'])
          for (const { name, pid } of servers) {
            const view = last.view(name)
            expect(view).toMatchObject({ state: 'ready', pid })
            expect(await world.published(name)).toMatchObject({ port: view?.port, ready: true })
          }
          return true
        },
        { timeoutMs: 120_000, what: 'one server per service' },
      )
      await requests.more()
      expect({ failed: requests.failed, gaps: published.history.filter((one) => one === undefined) }).toEqual({
        failed: [],
        gaps: [],
      })
      // Else it was no storm.
      expect(count('successor takes over')).toBeGreaterThan(0)
      expect(count('adopted server')).toBeGreaterThan(2 * kills)
    },
  )
})

/** What it said until it was killed. */
async function lifeOf(prepared: unknown, ms: number): Promise<string> {
  const child = spawn(process.execPath, [script, JSON.stringify(prepared)], { stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(child, 'exit')
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text))
  await eventually(() => said.includes('adopted server'))
  await delay(ms)
  child.kill('SIGKILL')
  await exited
  return said
}

async function changeAgainAndAgain(world: AgentWorld, signal: AbortSignal): Promise<void> {
  for (const { name, contextSize, loadMs, pauseMs } of fc.sample(change, { seed, numRuns: 5_000 })) {
    if (signal.aborted) return
    await world.patchSpec(name, { contextSize, extraArgs: ['--sample-script', JSON.stringify({ loadMs })] })
    await delay(pauseMs)
  }
}
