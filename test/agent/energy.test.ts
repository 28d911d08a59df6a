import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { agentSettings } from '../../src/agent-core/settings/settings.ts'
import { main } from '../../src/cli/main.ts'
import { energyView, type EnergyView } from '../../src/contract/power.ts'
import { hostAgent } from '../../src/serve/host-agent.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { powerStandIns } from '../support/power/stand-ins.ts'
import { Recorder } from '../support/running-agent.ts'
import { servingWorld } from '../support/serving-world.ts'
import { StatedMemory } from '../support/stated-memory.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('a service that generates has the energy of that time, its tokens are those of its clients, and both outlive the agent', async () => {
  await using it = await energyWorld()
  await using first = await it.start()
  const { port } = await eventually(() => first.view('chat'), { what: 'the service to be ready' })
  await it.standIns.print({ cpu: 4_000, gpu: 8_000, ane: 0, combined: 12_000 })
  await eventually(async () => ((await first.energy()).joules ?? 0) > 0, { what: 'energy of the machine' })
  const answered = await fetch(`http://127.0.0.1:${port}/completion`, {
    method: 'POST',
    body: JSON.stringify({ n_predict: 100 }),
  })
  expect(answered.status).toBe(200)
  const view = await eventually(
    async () => {
      const now = await first.energy()
      return (now.services[0]?.generatedTokens ?? 0) >= 100 && (now.services[0]?.joules ?? 0) > 0 && now
    },
    { what: 'tokens and energy of the service' },
  )
  expect(view.services).toMatchObject([{ namespace: 'default', name: 'chat', promptTokens: 8, generatedTokens: 100 }])
  expect(view.services[0]?.requests).toBeUndefined()
  expect(view.joules).toBeCloseTo((view.services[0]?.joules ?? 0) + (view.ownJoules ?? 0))
  const text = await first.run('energy', '--since', '24h')
  expect(text).toMatch(/^Note {5}The shares of services are estimates/m)
  expect(text).toMatch(/^chat +default +~.* Wh /m)
  const metrics = await (await fetch(`http://127.0.0.1:${it.port}/metrics`)).text()
  expect(metrics).toMatch(
    /^llmkube_metal_agent_service_energy_joules_total\{name="chat",namespace="default"\} [\d.]+$/m,
  )
  expect(metrics).toMatch(/^llmkube_metal_agent_energy_joules_total [\d.]+$/m)
  await first.stop()

  await using second = await it.start()
  const kept = (await second.energy()).services[0]
  expect(kept).toMatchObject({ name: 'chat', promptTokens: 8, generatedTokens: 100 })
  expect(kept?.joules).toBeGreaterThanOrEqual(view.services[0]?.joules ?? Infinity)
})

test('without power there is a sentence that says what to turn on, and a wrong time is refused', async () => {
  await using it = await energyWorld()
  await using agent = await it.start({ applePowerEnabled: false, energyLedger: false })
  expect(await agent.run('energy')).toBe(
    'Machine  not measured\nTime     No figures are kept for this time.\n         Power is not measured: `metal-agent settings set apple-power-enabled on` measures it while somebody views it; with `metal-agent settings set energy-ledger on`, all the time.\n',
  )
  expect(await agent.run('energy', '--since', 'yesterday')).toMatch(/^metal-agent: --since must be a time such as 24h/)
})

/** A simulated cluster with one service, and agents on one state folder with stand-ins for sudo and powermetrics. */
async function energyWorld() {
  await using parts = new AsyncDisposableStack()
  const folder = parts.use(await temporaryFolder())
  const standIns = parts.use(await powerStandIns())
  const world = parts.use(await servingWorld())
  const port = await freePort()
  const kubeconfig = path.join(folder.dir, 'kubeconfig')
  await writeFile(kubeconfig, world.sim.kubeconfig())
  world.apply('chat')
  const stateDir = path.join(folder.dir, 'state')
  const kept = parts.move()
  return {
    standIns,
    port,
    start: async (given: object = {}) => {
      const result = await hostAgent({
        settings: agentSettings.parse({
          ...{ ...world.preferences, stateDir, port, kubeconfig, modelStore: path.join(folder.dir, 'models') },
          ...{ applePowerEnabled: true, energyLedger: true, ...given },
        }),
        ...{ platform: new StatedMemory().platform, log: new Recorder(), version: 'v0-test', env: {} },
        ...{ temporaryDir: tmpdir(), windowFolder: folder.dir },
        powerTrial: { platform: 'darwin', commands: standIns.commands, stallMs: 60_000 },
      })
      if (!result.ok) throw new Error(result.message)
      const { hosted } = result
      const run = async (...args: string[]): Promise<string> => {
        let printed = ''
        const output = { write: (text: string) => (printed += text) }
        await main([...args, '--state-dir', stateDir], {
          ...{ stdout: output, stderr: output, env: {}, platform: process.platform },
          ...{ homeDir: folder.dir, temporaryDir: tmpdir(), cwd: folder.dir, windowFolder: folder.dir },
        })
        return printed
      }
      return {
        run,
        stop: () => hosted.stop(),
        energy: async (): Promise<EnergyView> => energyView.parse(JSON.parse(await run('energy', '-o', 'json'))),
        view: (name: string) =>
          hosted.door.get().services.find((service) => service.name === name && service.state === 'ready'),
        [Symbol.asyncDispose]: async () => {
          await hosted.stop()
        },
      }
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}
