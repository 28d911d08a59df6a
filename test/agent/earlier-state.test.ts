import { readdir, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { answers } from '../../src/contract/queries.ts'
import type { StreamItem } from '../../src/contract/streams.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { restoreState } from '../support/recorded-state.ts'

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
