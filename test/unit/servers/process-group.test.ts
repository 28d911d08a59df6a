import { expect, test } from 'vitest'
import type { ProcessFacts } from '../../../src/agent-core/platform/platform.ts'
import { silentLog } from '../../support/silent-log.ts'
import { isWorking, ProcessGroup } from '../../../src/agent-core/servers/process-group.ts'

const facts = (pid: number): ProcessFacts => ({
  ...{ pid, groupId: 1, startTime: '0', commandLine: 'server', suspended: false },
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
