import path from 'node:path'
import { app } from './app.ts'
import { throwsWhenDestroyed } from './destroyable.ts'
import { ElectronEmitter, refuseOtherChoice, refuseUnknown } from './electron-types.ts'
import type { Menu } from './menu.ts'
import { NativeImage } from './native-image.ts'

interface Bounds {
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
}

/** The icons in the menu bar. Only the app keeps them: one that nothing refers to is taken away. */
const trays: WeakRef<Tray>[] = []

export const trayNow = (): Tray | undefined => trays.map((tray) => tray.deref()).find((tray) => tray !== undefined)

export const newestTray = (): Tray | undefined => trays.findLast((tray) => tray.deref() !== undefined)?.deref()

export class Tray extends ElectronEmitter {
  #menu: WeakRef<Menu> | undefined
  #image: NativeImage
  #toolTip = ''
  #title = ''
  /** Processor time that the process had taken when it came up. */
  readonly #cpuMs: number
  #isDestroyed = false
  #ignoresDoubleClicks = false
  #isMenuOpen = false
  #bounds: Bounds = { x: 1_000, y: 0, width: 24, height: 25 }

  constructor(image: NativeImage, guid?: string) {
    super('Tray', ['menu-shown'])
    if (guid !== undefined && !/^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/.test(guid))
      throw new Error('Invalid GUID format')
    app.mustBeReady('Cannot create Tray')
    this.#image = imageOf(image)
    const { user, system } = process.cpuUsage()
    this.#cpuMs = (user + system) / 1_000
    trays.push(new WeakRef(this))
  }

  setImage(image: NativeImage): void {
    this.#image = imageOf(image)
  }

  setToolTip(text: string): void {
    this.#toolTip = text
  }

  setTitle(title: string, options: { readonly fontType?: string } = {}): void {
    refuseUnknown('TitleOptions', options)
    refuseOtherChoice('TitleOptions', 'fontType', options.fontType)
    this.#title = title
  }

  setIgnoreDoubleClickEvents(ignores: boolean): void {
    this.#ignoresDoubleClicks = ignores
  }

  popUpContextMenu(menu: Menu): void {
    this.#menu = new WeakRef(menu)
    this.#isMenuOpen = true
    menu.once('menu-will-close', () => {
      this.#isMenuOpen = false
    })
    menu.emit('menu-will-show')
    this.emit('menu-shown', menu)
  }

  getBounds(): Bounds {
    return this.#bounds
  }

  destroy(): void {
    this.#isDestroyed = true
  }

  isDestroyed(): boolean {
    return this.#isDestroyed
  }

  get isMenuOpen(): boolean {
    return this.#isMenuOpen
  }

  /** The one that is open or was last. */
  get menu(): Menu | undefined {
    const menu = this.#menu?.deref()
    if (this.#menu && !menu) throw new Error('The menu is gone: nothing referred to it.')
    return menu
  }

  /** As when others come and go beside it, or when macOS has no room for it. */
  moveTo(bounds: Bounds): void {
    this.#bounds = bounds
  }

  /** Of the mouse on it; the second of two quick clicks is one of its own only where double clicks are ignored. */
  released(count: 1 | 2, keys: { readonly ctrlKey: boolean }, bounds: Bounds): void {
    this.emit(count === 1 || this.#ignoresDoubleClicks ? 'click' : 'double-click', keys, bounds)
  }

  get shown() {
    return {
      image: path.basename(this.#image.file ?? ''),
      isTemplate: this.#image.isTemplateImage(),
      toolTip: this.#toolTip,
      title: this.#title,
      cpuMs: this.#cpuMs,
    }
  }
}

throwsWhenDestroyed(Tray, ['destroy', 'shown'])

function imageOf(image: unknown): NativeImage {
  if (image instanceof NativeImage) return image
  throw new TypeError('Argument must be a file path or a NativeImage')
}
