import { expect, test } from 'vitest'
import { ask, untilInFlight } from '../unit/servers/server-room.ts'
import { AgentWorld, untilGone } from '../support/agent-world.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { SliceWatch } from '../support/slice-watch.ts'

test('requests that run when the agent is asked to end are answered first, and nothing is left', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const { agent, pid, port } = await world.serving('tiny', { script: { tokenMs: 40 } })
  const answer = ask(port)
  await untilInFlight(port)
  await using slices = new SliceWatch(sim.connection(), world.namespace)
  await slices.until('tiny', 'ready')
  await agent.stop()
  await untilGone(pid)
  expect(await answer).toBe('answered')
  expect((await world.published('tiny'))?.ready ?? false).toBe(false)
})
