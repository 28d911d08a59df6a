import { expect, test } from 'vitest'
import type { ProcessFacts } from '../../../src/agent-core/platform/platform.ts'
import { silentLog } from '../../support/silent-log.ts'
import { endGroup, isWorking, ProcessGroup } from '../../../src/agent-core/servers/process-group.ts'

const facts = (pid: number): ProcessFacts => ({
  ...{ pid, groupId: 1, startTime: '0', commandLine: 'server', suspended: false },
})

/** A group whose members are these, look after look, though they are killed each time. */
function hangingGroup(looks: number[][]) {
  const kills: string[] = []
  const group = {
    gone: () => Promise.resolve((looks.shift() ?? []).map(facts)),
    signal: (signal: string) => Promise.resolve(void kills.push(signal)),
  }
  return { group, kills }
}

test('processes that do not end are killed again and again, and told once until others are left', async () => {
  const { group, kills } = hangingGroup([[7, 8], [7, 8], [7, 8], [7, 8], [8]])
  const told: string[] = []
  const left = await endGroup({ group, killAt: 0, isLetGo: () => false, onLeft: (sentence) => told.push(sentence) })
  const sentence = (pids: string) => `Of its processes, ${pids} were killed but have not exited.`
  expect([left, told, kills]).toEqual([undefined, [sentence('7, 8'), sentence('8')], Array(5).fill('SIGKILL')])
})

test('what another agent is to look after is killed once and left to it', async () => {
  const { group, kills } = hangingGroup([[7], [7]])
  const told: string[] = []
  const left = await endGroup({ group, killAt: 0, isLetGo: () => true, onLeft: (sentence) => told.push(sentence) })
  expect([left, told, kills]).toEqual(['Of its processes, 7 were killed but have not exited.', [], ['SIGKILL']])
})

test('the memory at its end is that of the whole, also where its first process is gone before that is known', async () => {
  const whole = [7, 8].map((pid) => ({ ...facts(pid), groupId: 7, residentBytes: 100 }))
  const looks = [whole, whole.slice(1), [{ ...facts(7), groupId: 7, residentBytes: 0 }, ...whole.slice(1)]]
  const processGroup = () => Promise.resolve(looks.shift() ?? [])
  const group = new ProcessGroup({
    ...{ groupId: 7, leaderStartTime: '0', log: silentLog, now: () => 0 },
    platform: { processGroup, process: () => Promise.resolve(undefined) },
  })
  for (let look = 0; look < 3; look += 1) await group.members()
  expect(group.memoryAtEnd(0)?.residentBytes).toBe(200)
})

test.each([
  [10, 500, true],
  [9, 500, false],
  [20, 2_000, true],
  [19, 2_000, false],
])('%i ms of the processor in %i ms is work: %s', (cpuMs, ms, works) => {
  expect(isWorking({ cpuMs: 1_000, at: 5_000 }, { cpuMs: 1_000 + cpuMs, at: 5_000 + ms })).toBe(works)
})
