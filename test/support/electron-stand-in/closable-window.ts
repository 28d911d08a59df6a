import { app } from './app.ts'
import { throwsWhenDestroyed } from './destroyable.ts'
import { ElectronEmitter } from './electron-types.ts'
import { PreventableEvent } from './preventable-event.ts'

/** How a window ends, with a page or without. */
export abstract class ClosableWindow extends ElectronEmitter {
  #isDestroyed = false

  isDestroyed(): boolean {
    return this.#isDestroyed
  }

  close(): void {
    const event = new PreventableEvent()
    this.emit('close', event)
    if (event.defaultPrevented) app.closeWasPrevented()
    else this.destroy()
  }

  destroy(): void {
    this.#isDestroyed = true
    this.emit('closed')
    app.windowClosed(this)
  }
}

throwsWhenDestroyed(ClosableWindow)
