import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** As it comes sooner or later by itself. */
export async function collectGarbage(): Promise<void> {
  setFlagsFromString('--expose-gc')
  // A weak reference that was looked at keeps its object until the turn ends.
  await setImmediate()
  ;(runInNewContext('gc') as () => void)()
}
