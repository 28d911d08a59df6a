import { powerSaveBlocker } from 'electron'
import type { HoldAwake } from '../agent-core/power/stay-awake.ts'

/** The system does not go to sleep by itself, and does not slow this app's timers (App Nap); the display may go off. */
export const holdAwake: HoldAwake = () => {
  const id = powerSaveBlocker.start('prevent-app-suspension')
  return {
    get isHeld() {
      return powerSaveBlocker.isStarted(id)
    },
    release: () => void powerSaveBlocker.stop(id),
  }
}
