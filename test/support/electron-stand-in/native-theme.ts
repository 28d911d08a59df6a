import { ElectronEmitter } from './electron-types.ts'

class NativeTheme extends ElectronEmitter {
  shouldUseDarkColors = false

  constructor() {
    super('NativeTheme')
  }

  /** As a person, or the evening, changes it. */
  become(appearance: 'light' | 'dark'): void {
    this.shouldUseDarkColors = appearance === 'dark'
    this.emit('updated')
  }
}

export const nativeTheme = new NativeTheme()
