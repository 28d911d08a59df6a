import { createHash } from 'node:crypto'
import { readdir, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { answers } from '../../src/contract/queries.ts'
import type { StreamItem } from '../../src/contract/log.ts'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { AgentWorld, commandLineOf } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { replaceLeftServer, restoreState } from '../support/recorded-state.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'

test('an agent goes on with the state folder that an earlier build left: its servers and their output, settings and history, and with nothing of a write that it was killed in', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection(), { controller: false, namespace: 'default' })
  const { stateDir } = await world.preparedAgent()
  await using recorded = await restoreState(stateDir)
  const killed = join(stateDir, 'holds.json.3141592')
  await writeFile(killed, '{"sche')
  await utimes(killed, new Date(0), new Date(0))
  const running = await world.startAgent({ kubeconfig: join(world.folder, 'none.kubeconfig') })
  const { agent, log } = running
  const service = { namespace: 'team', name: 'chat' }
  const adopted = () =>
    log.infos.filter(({ message }) => message === 'adopted server').map(({ fields }) => fields['pid'])
  await eventually(() => adopted().length === recorded.servers.length)
  expect(adopted().toSorted()).toEqual(recorded.servers.map(({ pid }) => pid).toSorted())

  expect(await readdir(stateDir)).not.toContain('holds.json.3141592')

  const page = async (run: 'current' | 'previous') =>
    answers.log.parse(await agent.query({ name: 'log', service, run, lines: 1_000 })).lines
  expect((await page('current')).slice(0, 2)).toEqual([
    'sample server: this is not llama-server, every answer is made up',
    expect.stringMatching(/^main: server is listening on /),
  ])
  expect((await page('previous')).at(-1)).toBe('error: the first run ended')
  const followed: StreamItem[] = []
  const leave = agent.stream(
    { name: 'log', service },
    { next: (item) => void followed.push(item), end: () => undefined },
  )
  await eventually(() => followed.length > 2)
  leave()

  const { entries } = answers.history.parse(await agent.query({ name: 'history', limit: 100 }))
  expect(entries.map(({ kind }) => kind)).toContain('evicted')
  const { settings } = answers.settings.parse(await agent.query({ name: 'settings' }))
  expect(JSON.stringify(settings)).toContain('20000')
  expect(agent.snapshot().notices).toEqual([])
})

test('a server that an earlier build started with fewer arguments is no reason for a restart: it gets the others at its next start', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const { agent: first } = await world.serving('tiny')
  await first.leave()

  // As of the builds without --alias, whose servers were given the path of the model.
  const cores = await hostPlatform().performanceCores()
  const rest = ['--n-gpu-layers', '99', '--ctx-size', '2048', '--metrics', '--flash-attn', 'on', '--mlock']
  const more = [...rest, ...(cores === undefined ? [] : ['--threads', String(cores)]), '--batch-size', '2048']
  const digested = [sampleServerPath, ['--model', '', '--host', '0.0.0.0', '--port', '0', ...more], [], world.modelUrl]
  const digest = createHash('sha256').update(JSON.stringify(digested)).digest('hex')
  const args = ['--model', join(world.folder, 'tiny.gguf'), '--host', '0.0.0.0', ...more]
  using earlier = await replaceLeftServer(first.stateDir, { digest, args })

  const agent = await world.startAgent()
  const { pid, restarts } = await agent.untilReady('tiny')
  await eventually(async () => (await world.condition('tiny')) === 'True Serving')
  await agent.agent.command({ requestId: 'a-look-at-all', command: { name: 'resync' } })
  const started = agent.log.infos.filter(({ message }) => /^(start|stopp)/.test(message)).map(({ message }) => message)
  expect({ pid, restarts, started }).toEqual({ pid: earlier.pid, restarts: 0, started: [] })

  await world.patchSpec('tiny', { contextSize: 1024 })
  const next = await agent.untilReadyAgain('tiny', earlier.pid)
  const commandLine = (await commandLineOf(next.pid)) ?? ''
  expect(commandLine).toMatch(/ --model model\/\S+\.gguf --host .* --ctx-size 1024 .* --alias tiny$/)
  expect(commandLine).not.toContain(world.folder)
})
