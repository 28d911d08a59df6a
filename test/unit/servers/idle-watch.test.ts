import { expect, test } from 'vitest'
import { IdleWatch } from '../../../src/agent-core/servers/idle-watch.ts'
import { eventually } from '../../support/eventually.ts'
import { silentLog } from '../../support/silent-log.ts'

const idleMs = 400

test('the time for which the machine slept is no idle time', async () => {
  let slept = 0
  let looks = 0
  const idle: number[] = []
  using watch = new IdleWatch({
    platform: {
      establishedConnections: () => {
        looks += 1
        slept += 8 * 3_600_000
        return Promise.resolve(0)
      },
    },
    log: silentLog,
    onIdle: () => idle.push(looks),
    now: () => slept,
  })
  watch.watch('a/b', { pid: 1, port: 1, idleMs, sleepsWhenIdle: true })
  await eventually(() => looks >= 1)
  expect(idle).toEqual([])
  await eventually(() => idle.length === 1)
  expect(idle).toEqual([2])
})
