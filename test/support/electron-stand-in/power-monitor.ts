import { app } from './app.ts'
import { ElectronEmitter } from './electron-types.ts'
import { PreventableEvent } from './preventable-event.ts'

export const powerMonitor = new ElectronEmitter('PowerMonitor')

export const powerEvents = ['suspend', 'resume', 'shutdown', 'on-ac', 'on-battery'] as const

/** As the system does; answers whether the app asked for time. Where it did not, a shutdown or logout asks it to quit. */
export function announce(event: (typeof powerEvents)[number]): boolean {
  const announced = new PreventableEvent()
  if (!powerMonitor.emit(event, announced)) throw new Error(`The app does not listen to ${event}.`)
  if (event === 'shutdown' && !announced.defaultPrevented) app.quit()
  return announced.defaultPrevented
}
