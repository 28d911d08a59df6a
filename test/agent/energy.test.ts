import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { agentSettings } from '../../src/agent-core/settings/settings.ts'
import { hostAgent } from '../../src/serve/host-agent.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { powerStandIns } from '../support/power/stand-ins.ts'
import { Recorder } from '../support/running-agent.ts'
import { servingWorld } from '../support/serving-world.ts'
import { StatedMemory } from '../support/stated-memory.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('a service that generates has joules of those that the machine draws', async () => {
  await using it = await energyWorld()
  const { port } = await eventually(() => it.ready('chat'), { what: 'the service to be ready' })
  await it.standIns.print({ cpu: 4_000, gpu: 8_000, ane: 0, combined: 12_000 })
  await eventually(async () => (await it.joules(/^llmkube_metal_agent_energy_joules_total (.+)$/m)) > 0)
  const answered = await fetch(`http://127.0.0.1:${port}/completion`, {
    method: 'POST',
    body: JSON.stringify({ n_predict: 100 }),
  })
  expect(answered.status).toBe(200)
  const ofService = /^llmkube_metal_agent_service_energy_joules_total\{name="chat",namespace="default"\} (.+)$/m
  await eventually(async () => (await it.joules(ofService)) > 0, { what: 'energy of the service' })
})

/** An agent with one service and stand-ins for sudo and powermetrics. */
async function energyWorld() {
  await using parts = new AsyncDisposableStack()
  const folder = parts.use(await temporaryFolder())
  const standIns = parts.use(await powerStandIns())
  const world = parts.use(await servingWorld())
  const port = await freePort()
  const kubeconfig = path.join(folder.dir, 'kubeconfig')
  await writeFile(kubeconfig, world.sim.kubeconfig())
  world.apply('chat')
  const places = { stateDir: path.join(folder.dir, 'state'), modelStore: path.join(folder.dir, 'models') }
  const result = await hostAgent({
    settings: agentSettings.parse({ ...world.preferences, ...places, port, kubeconfig, applePowerEnabled: true }),
    ...{ platform: new StatedMemory().platform, log: new Recorder(), version: 'v0-test', env: {} },
    ...{ temporaryDir: tmpdir(), windowFolder: folder.dir },
    powerTrial: { platform: 'darwin', commands: standIns.commands, stallMs: 60_000 },
  })
  if (!result.ok) throw new Error(result.message)
  const { hosted } = result
  parts.defer(async () => void (await hosted.stop()))
  const kept = parts.move()
  return {
    standIns,
    /** NaN where there is no such line. */
    joules: async (line: RegExp): Promise<number> =>
      Number(line.exec(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text())?.[1]),
    ready: (name: string) =>
      hosted.door.get().services.find((service) => service.name === name && service.state === 'ready'),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}
