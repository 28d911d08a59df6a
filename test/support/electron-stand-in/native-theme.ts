import { EventEmitter } from 'node:events'

class NativeTheme extends EventEmitter {
  shouldUseDarkColors = false

  /** As a person, or the evening, changes it. */
  become(appearance: 'light' | 'dark'): void {
    this.shouldUseDarkColors = appearance === 'dark'
    this.emit('updated')
  }
}

export const nativeTheme = new NativeTheme()
