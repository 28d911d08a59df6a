import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { AgentProcess } from '../support/agent-process.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { useRealApiServer } from '../support/api-worlds/api-worlds.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { askAgainAndAgain } from '../support/endless-requests.ts'
import { eventually } from '../support/eventually.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { serversIn } from '../support/servers-in.ts'
import { SliceWatch } from '../support/slice-watch.ts'

const kills = Number(process.env['KILL_STORM_KILLS'] ?? 24)
/** Longest life, but for a machine on which starting a server takes longer: else no agent would get as far as a start. */
const shortLifeMs = 500
/**
 * In turn after the agent's first line of log, after it sees the cluster, where most of its work is, and after it begins a start, to which an
 * agent on a busy machine may not get in any time that is drawn before. The person goes on changing what is wanted, so that each gets there.
 */
const lifeBegins = ['watching', 'starting inference service', 'watching', 'starting metal-agent'] as const
const partOfLongestLife = fc.double({ min: 0, max: 1, noNaN: true })
const longestPauseMs = 150
const seed = Number(process.env['KILL_STORM_SEED'] ?? Date.now() % 2 ** 31)

const changes = ['apply', 'change', 'toZero', 'toOne', 'suspend', 'resume', 'delete'] as const
const step = fc.record({
  name: fc.constantFrom('red', 'green', 'blue'),
  change: fc.constantFrom(...changes),
  contextSize: fc.integer({ min: 1, max: 8 }).map((thousands) => thousands * 1024),
  pauseMs: fc.integer({ min: 0, max: longestPauseMs }),
})
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

describe('on a real API server', () => {
  const api = useRealApiServer()

  test(
    `an agent killed ${kills} times in the middle of things leaves one process per wanted service and none else (seed ${seed})`,
    { timeout: Math.max(600_000, kills * 10_000) },
    async () => {
      await using world = await AgentWorld.open(api().connection)
      const folder = join(world.folder, 'agent')
      const kubeconfig = await readFile(await writeKubeconfig(join(world.folder, 'admin'), api().connection), 'utf8')
      const args = ['--namespace', world.namespace, '--llama-server', sampleServerPath, '--allow-unsafe-extra-args']
      const start = () => AgentProcess.start({ folder, kubeconfig, args })
      const first = await start()
      const applied = performance.now()
      await world.apply('steady', { script: { loadMs: 200 } })
      const { pid: steadyPid, port = 0 } = await first.service('steady', 'ready')
      const longestLifeMs = Math.max(shortLifeMs, performance.now() - applied)
      await using slices = new SliceWatch(api().connection, world.namespace)
      await slices.until('steady', 'ready')
      await using requests = askAgainAndAgain(port, { tokens: 30 })

      const script = new Script(world)
      const writing = script.run()
      const parts = fc.sample(partOfLongestLife, { seed, numRuns: kills })
      const agents = [first]
      await killed(first)
      for (const [at, part] of parts.slice(1).entries()) {
        const agent = await start()
        agents.push(agent)
        await agent.logged(lifeBegins[at % lifeBegins.length] ?? 'watching')
        await delay(part * longestLifeMs)
        await killed(agent)
      }
      script.end()
      await writing

      await using last = await start()
      const wanted = ['steady', ...(await script.wanted())].sort()
      await eventually(
        async () => {
          const servers = await serversIn(join(folder, 'state'))
          expect(servers.map(({ name }) => name).sort()).toEqual(wanted)
          const views = (await last.snapshot()).services
          for (const { name, pid } of servers) {
            const view = views.find((one) => one.name === name)
            expect(view).toMatchObject({ state: 'ready', pid })
            expect(await world.published(name)).toMatchObject({ port: view?.port, ready: true })
          }
          const unwanted = ['red', 'green', 'blue'].filter((name) => !wanted.includes(name))
          for (const name of unwanted) expect((await world.published(name))?.ready ?? false).toBe(false)
          return true
        },
        { timeoutMs: 120_000, what: 'what runs and is published to be what is wanted' },
      )
      const { services } = await last.snapshot()
      const steady = {
        pid: services.find(({ name }) => name === 'steady')?.pid,
        shown: slices.history('steady'),
        failed: [...requests.failed],
      }
      const count = (what: string) => agents.flatMap(({ log }) => log).filter(({ msg }) => msg === what).length
      await last.stop()
      expect({ steady, left: await serversIn(join(folder, 'state')) }).toEqual({
        steady: { pid: steadyPid, shown: ['ready'], failed: [] },
        left: [],
      })
      // Else it was no storm.
      expect(count('starting inference service')).toBeGreaterThan(kills / lifeBegins.length - 1)
      expect(count('adopted server')).toBeGreaterThan(kills / 2)
    },
  )
})

async function killed(agent: AgentProcess): Promise<void> {
  agent.signal('SIGKILL')
  await agent.exited
}

/** A person who changes the spec again and again. */
class Script {
  readonly #world: AgentWorld
  #ended = false

  constructor(world: AgentWorld) {
    this.#world = world
  }

  end(): void {
    this.#ended = true
  }

  async run(): Promise<void> {
    for (const one of fc.sample(step, { seed, numRuns: 5_000 })) {
      if (this.#ended) return
      await this.#take(one)
      await delay(one.pauseMs)
    }
  }

  /** Which of its services are to be served now. */
  async wanted(): Promise<string[]> {
    const services = await this.#world.admin.list({ apiVersion, kind: 'InferenceService' })
    return services
      .filter(({ metadata, spec }) => metadata.name !== 'steady' && isServed(spec))
      .map(({ metadata }) => metadata.name)
  }

  async #take({ name, change, contextSize }: Step): Promise<void> {
    const world = this.#world
    const exists = (await world.admin.get({ apiVersion, kind: 'InferenceService', metadata: { name } })) !== undefined
    if (change === 'apply') await world.apply(name, { spec: { replicas: 1, suspend: false }, script: { loadMs: 100 } })
    else if (!exists) return
    else if (change === 'delete') await world.deleteService(name)
    else await world.patchSpec(name, patches(contextSize)[change])
  }
}

const apiVersion = 'inference.llmkube.dev/v1alpha1'

const patches = (contextSize: number) => ({
  change: { contextSize },
  toZero: { replicas: 0 },
  toOne: { replicas: 1 },
  suspend: { suspend: true },
  resume: { suspend: false },
})

function isServed(spec: unknown): boolean {
  if (typeof spec !== 'object' || spec === null) return false
  const isSuspended = 'suspend' in spec && spec.suspend === true
  return !isSuspended && !('replicas' in spec && spec.replicas === 0)
}
