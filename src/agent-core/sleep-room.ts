import type { LastingRooms } from './lasting-rooms.ts'
import { LateTimers } from './observability/late-timers.ts'
import type { RoomContext } from './room-context.ts'
import { Sleep } from './sleep.ts'

/** What is done around a sleep, by a timer that also tells whether timers come on time. */
export function sleepRoom(
  { options: { log }, ends, metrics, snapshots, session }: RoomContext,
  { servers }: Pick<LastingRooms, 'servers'>,
): Sleep {
  const timers = new LateTimers()
  const onTick = (lateMs: number) => {
    const before = timers.notice
    if (timers.tick(lateMs)) metrics.add('late_timers_total', 1)
    const { notice } = timers
    if (notice === before) return
    if (before === undefined) log.warn('timers are late', { text: notice })
    snapshots.changed()
  }
  snapshots.register(() => ({ notices: timers.notice === undefined ? [] : [timers.notice] }))
  return ends.use(new Sleep({ servers, session, log, onTick }))
}
