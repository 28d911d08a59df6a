import { app } from './app.ts'
import { ClosableWindow } from './closable-window.ts'
import { throwsWhenDestroyed } from './destroyable.ts'
import { refuseUnknown, wholeNumber } from './electron-types.ts'
import { windows } from './windows.ts'

interface Options {
  readonly x?: number
  readonly y?: number
  readonly width: number
  readonly height: number
  readonly show?: boolean
}

/** A window without a page. */
export class BaseWindow extends ClosableWindow {
  #isShown: boolean

  constructor(options: Options) {
    super('BaseWindow')
    app.mustBeReady('Cannot create BaseWindow')
    refuseUnknown('BaseWindowConstructorOptions', options)
    const { x = 0, y = 0, width, height, show = true } = options
    for (const number of [x, y, width, height]) wholeNumber(number, 0)
    this.#isShown = show
    app.windows.add(this)
  }

  /** Whether the app ordered it in front. */
  get isShown(): boolean {
    return this.#isShown
  }

  /** Makes the app the active one. */
  show(): void {
    this.#isShown = true
    if (app.mayActivate) app.activated()
    this.focus()
  }

  /** Another window has the keys no longer. */
  focus(): void {
    if (this.#isShown && app.mayFocus) for (const other of windows) other.loseFocus()
  }

  isVisible(): boolean {
    return this.#isShown
  }
}

throwsWhenDestroyed(BaseWindow)
