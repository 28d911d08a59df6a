import { EventEmitter } from 'node:events'
import { app } from './app.ts'
import { PreventableEvent } from './preventable-event.ts'

export const powerMonitor = new EventEmitter()

/** As the system does; answers whether the app asked for time. Where it did not, a shutdown or logout asks it to quit. */
export function announce(event: 'suspend' | 'resume' | 'shutdown'): boolean {
  const announced = new PreventableEvent()
  powerMonitor.emit(event, announced)
  if (event === 'shutdown' && !announced.defaultPrevented) app.quit()
  return announced.defaultPrevented
}
