import { expect, test } from 'vitest'
import { ask, untilInFlight } from '../unit/servers/server-room.ts'
import { AgentWorld, untilGone } from '../support/agent-world.ts'
import { askAgainAndAgain } from '../support/endless-requests.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { SliceWatch } from '../support/slice-watch.ts'

test('requests that run when the machine sleeps are answered after it, by the same server, which is published again', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const { agent, pid, port } = await world.serving('tiny', { script: { tokenMs: 20 } })
  await using slices = new SliceWatch(sim.connection(), world.namespace)
  await slices.until('tiny', 'ready')
  await using asking = askAgainAndAgain(port, { tokens: 20 })
  await eventually(() => asking.answered > 0)

  await agent.agent.suspend()
  await slices.until('tiny', 'not ready')
  // A machine that sleeps stops every process.
  process.kill(pid, 'SIGSTOP')
  const answered = asking.answered
  process.kill(pid, 'SIGCONT')
  await agent.agent.resume()
  await slices.until('tiny', 'ready')
  await eventually(() => asking.answered > answered + 1)
  expect({ failed: asking.failed, pid: agent.view('tiny')?.pid }).toEqual({ failed: [], pid })
})

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
