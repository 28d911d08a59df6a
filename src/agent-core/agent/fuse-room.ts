import type { LastingRooms } from './lasting-rooms.ts'
import type { History } from '../history/history.ts'
import { PanicFuse } from '../power/panic-fuse/panic-fuse.ts'
import type { RoomContext } from './room-context.ts'

/** Throws StateFileError. */
export async function fuseRoom(
  { options, ends, snapshots, session }: RoomContext,
  { servers, memory }: Pick<LastingRooms, 'servers' | 'memory'>,
  history: History,
): Promise<PanicFuse> {
  const { settings, platform, log, fuseTrial } = options
  const fuse = await PanicFuse.open({
    stateDir: settings.stateDir,
    platform,
    servers,
    budgetBytes: () => memory.budget?.bytes,
    history,
    log,
    enqueue: (key) => session()?.reconciler.enqueue(key),
    onChange: () => snapshots.changed(),
    ...(fuseTrial && { timings: fuseTrial }),
  })
  let budgetBytes = memory.budget?.bytes
  const followBudget = () => {
    if (memory.budget?.bytes === budgetBytes) return
    budgetBytes = memory.budget?.bytes
    fuse.budgetChanged()
  }
  memory.listen({ onSample: followBudget })
  snapshots.register(() => ({ panicFuse: fuse.view }))
  return ends.use(fuse)
}
