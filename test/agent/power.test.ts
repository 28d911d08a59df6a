import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { agentSettings, type AgentSettings } from '../../src/agent-core/settings/settings.ts'
import { socketPathFor } from '../../src/agent-core/state/socket-path.ts'
import { createAgentView, keepShowing } from '../../src/main/agent/agent-view.ts'
import { connectToAgent } from '../../src/serve/client/agent-client.ts'
import { inProcessLink } from '../../src/serve/client/lasting-link.ts'
import { hostAgent } from '../../src/serve/host-agent.ts'
import { AgentProcess } from '../support/agent-process.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { powerStandIns } from '../support/power/stand-ins.ts'
import { Recorder } from '../support/running-agent.ts'
import { StatedMemory } from '../support/stated-memory.ts'
import { runVerb } from '../support/run-verb.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const status = (text: string) => /^Power {4}(.*)$/m.exec(text)?.[1]
const inWatts = '0.2 W (CPU 0.2 W, GPU 0.0 W, ANE 0.0 W), by powermetrics'

test('power that a person asks for is in status and in the metrics, and ends when they no longer ask', async () => {
  await using it = await poweredAgent()
  expect(status(await it.run('status'))).toBeUndefined()
  expect(await it.run('settings', 'set', 'apple-power-enabled', 'on')).toMatch(/takes effect at once/)
  await eventually(async () => status(await it.run('status')) === inWatts, { what: 'watts in status' })
  expect(await it.metrics()).toEqual([
    'llmkube_metal_agent_apple_power_combined_watts 0.171',
    'llmkube_metal_agent_apple_power_gpu_watts 0.007',
    'llmkube_metal_agent_apple_power_cpu_watts 0.164',
    'llmkube_metal_agent_apple_power_ane_watts 0',
  ])
  await it.standIns.print({ cpu: 0, gpu: 8_000, ane: 0, combined: 8_000 })
  await eventually(
    async () =>
      status(await it.run('status')) === 'not reported (CPU not reported, GPU 8.0 W, ANE 0.0 W), by powermetrics',
    { what: 'the figures that cannot be true to be left out' },
  )
  expect((await it.metrics()).map((line) => line.split(' ')[0]?.split('power_')[1])).toEqual(['gpu_watts', 'ane_watts'])
  await it.run('settings', 'set', 'apple-power-enabled', 'default')
  await eventually(async () => (await it.standIns.living()) === 0, { what: 'powermetrics to be gone' })
  expect([status(await it.run('status')), await it.metrics()]).toEqual([undefined, []])
})

test('a scrape alone is a look, and the end of the agent that of powermetrics', async () => {
  await using it = await poweredAgent({ applePowerEnabled: true })
  await eventually(async () => (await it.standIns.calls()).at(-1)?.endsWith(' 10000'), { what: 'seldom samples' })
  await eventually(async () => (await it.metrics()).length === 4, { what: 'watts in the metrics' })
  expect(await it.standIns.calls()).toEqual([expect.stringMatching(/ 10000$/), expect.stringMatching(/ 1000$/)])
  expect(await it.standIns.living()).toBe(2)
  await it.stop()
  await eventually(async () => (await it.standIns.living()) === 0, { what: 'powermetrics to be gone' })
})

test("the app's icon follows without looking, in this process and over the socket, and a window beside it looks", async () => {
  await using it = await poweredAgent({ applePowerEnabled: true })
  await using client = await it.connect()
  for (const link of [inProcessLink(it.door), client]) {
    const view = createAgentView()
    const stop = keepShowing(link, view)
    await eventually(() => view.getState().snapshot, { what: 'the icon to show something' })
    expect(view.getState().snapshot?.power?.message).toMatch(/^Power is measured every 10 s\./)
    stop()
  }
  let state: string | undefined
  const leave = client.follow({ next: ({ power }) => (state = power?.state), end: () => undefined })
  await eventually(() => state === 'measuring', { what: 'power that the window shows' })
  leave()
})

test('without sudo leave is said in status, with the command to run', async () => {
  await using it = await poweredAgent({ applePowerEnabled: true })
  await it.standIns.mode('asks')
  await eventually(async () => (status(await it.run('status')) ?? '').includes('metal-agent power install'))
  expect(await it.metrics()).toEqual([])
})

test('macmon measures instead from the moment a person says so, and sudo is not asked any more', async () => {
  await using it = await poweredAgent({ applePowerEnabled: true })
  await it.standIns.mode('asks')
  await eventually(async () => (status(await it.run('status')) ?? '').includes('metal-agent power install'))
  const asked = await it.standIns.calls()
  expect(await it.run('settings', 'set', 'power-source', 'macmon')).toMatch(/takes effect at once/)
  await it.standIns.mode('measures')
  await eventually(async () => status(await it.run('status')) === inWatts.replace('powermetrics', 'macmon'))
  expect((await it.standIns.calls()).slice(asked.length)).toContain('macmon -i 1000 pipe')
  await it.run('settings', 'set', 'power-source', 'default')
  await eventually(async () => status(await it.run('status')) === inWatts, { what: 'powermetrics to measure again' })
})

test.skipIf(process.platform !== 'linux')(
  'on Linux an agent with the flags of the Go agent says that there is none',
  async () => {
    await using agent = await AgentProcess.start({ args: ['--apple-power-enabled'] })
    const { power, notices } = await agent.snapshotWhenUp()
    const message = 'Power is not measured on Linux: it is read from powermetrics, which only macOS has.'
    expect(power).toEqual({ state: 'unavailable', message, source: 'powermetrics' })
    expect(notices.filter((notice) => notice.includes('power'))).toEqual([])
    expect((await agent.logged('power'))['text']).toBe(message)
  },
)

/** An agent with its socket and its metrics, on stand-ins for sudo and powermetrics; without a cluster. */
async function poweredAgent(given: Partial<AgentSettings> = {}) {
  await using parts = new AsyncDisposableStack()
  const folder = parts.use(await temporaryFolder())
  const standIns = parts.use(await powerStandIns())
  const port = await freePort()
  const stateDir = path.join(folder.dir, 'state')
  const result = await hostAgent({
    settings: agentSettings.parse({
      stateDir,
      port,
      modelStore: path.join(folder.dir, 'models'),
      kubeconfig: path.join(folder.dir, 'none'),
      ...given,
    }),
    platform: new StatedMemory().platform,
    log: new Recorder(),
    version: 'v0-test',
    env: {},
    temporaryDir: tmpdir(),
    windowFolder: folder.dir,
    powerTrial: {
      ...{ platform: 'darwin', commands: standIns.commands },
      findMacmon: () => Promise.resolve({ kind: 'found', path: standIns.macmon }),
    },
  })
  if (!result.ok) throw new Error(result.message)
  const stop = () => result.hosted.stop()
  parts.defer(async () => {
    await stop()
  })
  const kept = parts.move()
  return {
    standIns,
    stop,
    door: result.hosted.door,
    connect: () => connectToAgent({ socketPath: socketPathFor(stateDir, tmpdir()), stateDir }),
    /** What a verb prints. */
    run: async (...args: string[]): Promise<string> => {
      const { stdout, stderr } = await runVerb([...args, '--state-dir', stateDir], folder.dir)
      return stdout + stderr
    },
    metrics: async (): Promise<string[]> => {
      const answer = await fetch(`http://127.0.0.1:${port}/metrics`)
      const lines = (await answer.text()).split('\n')
      return lines.filter((line) => line.startsWith('llmkube_metal_agent_apple_power'))
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}
