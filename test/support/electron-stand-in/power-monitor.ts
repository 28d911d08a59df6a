import { EventEmitter } from 'node:events'
import { PreventableEvent } from './app.ts'

export const powerMonitor = new EventEmitter()

/** As the system does; answers whether the app asked for time. */
export function announce(event: 'suspend' | 'resume' | 'shutdown'): boolean {
  const announced = new PreventableEvent()
  powerMonitor.emit(event, announced)
  return announced.defaultPrevented
}
