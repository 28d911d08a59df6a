import { EventEmitter } from 'node:events'
import { existsSync } from 'node:fs'
import path from 'node:path'
import type { Menu } from './menu.ts'

class NativeImage {
  readonly file: string
  isTemplate = false

  constructor(file: string) {
    this.file = file
  }

  setTemplateImage(isTemplate: boolean): void {
    this.isTemplate = isTemplate
  }
}

export const nativeImage = {
  createFromPath(file: string): NativeImage {
    // Electron makes an empty image of it, and shows nothing.
    if (!existsSync(file)) throw new Error(`There is no image ${file}`)
    return new NativeImage(file)
  },
}

/** The icons in the menu bar. */
export const trays: Tray[] = []

export class Tray extends EventEmitter {
  menu: Menu | undefined
  #image: NativeImage
  #toolTip = ''
  #title = ''

  constructor(image: NativeImage) {
    super()
    this.#image = image
    trays.push(this)
  }

  setImage(image: NativeImage): void {
    this.#image = image
  }

  setToolTip(text: string): void {
    this.#toolTip = text
  }

  setTitle(title: string): void {
    this.#title = title
  }

  setIgnoreDoubleClickEvents(): void {
    // A click is one click here.
  }

  popUpContextMenu(menu: Menu): void {
    this.menu = menu
    menu.emit('menu-will-show')
    this.emit('menu-shown', menu)
  }

  getBounds() {
    return { x: 1_000, y: 0, width: 24, height: 25 }
  }

  get shown() {
    return {
      image: path.basename(this.#image.file),
      isTemplate: this.#image.isTemplate,
      toolTip: this.#toolTip,
      title: this.#title,
    }
  }
}
