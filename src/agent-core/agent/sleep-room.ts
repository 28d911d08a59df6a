import type { LastingRooms } from './lasting-rooms.ts'
import { LateTimers } from '../observability/late-timers.ts'
import type { RoomContext } from './room-context.ts'
import { Sleep } from './sleep.ts'

/** What is done around a sleep, by a timer that also tells whether timers come on time. */
export function sleepRoom(
  { options: { log, platform }, ends, metrics, snapshots, session }: RoomContext,
  { servers }: Pick<LastingRooms, 'servers'>,
  lookAnew: () => Promise<unknown>,
): Sleep {
  const timers = new LateTimers(platform.name)
  const onTick = (lateMs: number) => follow(() => timers.tick(lateMs) && metrics.add('late_timers_total', 1))
  const onSleep = () => follow(() => timers.slept())
  const follow = (change: () => void) => {
    const before = timers.notice
    change()
    const { notice } = timers
    if (notice === before) return
    if (before === undefined) log.warn('timers are late', { text: notice })
    snapshots.changed()
  }
  snapshots.register(() => ({ notices: timers.notice === undefined ? [] : [timers.notice] }))
  return ends.use(new Sleep({ servers, session, log, onTick, onSleep, lookAnew }))
}
