import { app } from './app.ts'
import { ElectronEmitter, wholeNumber } from './electron-types.ts'

interface Point {
  readonly x: number
  readonly y: number
}
export interface Rectangle extends Point {
  readonly width: number
  readonly height: number
}
export interface Display {
  readonly id: number
  readonly bounds: Rectangle
  readonly workArea: Rectangle
}

/** A laptop with a menu bar of 25 points, and a display to the left of it with one of 30. */
export const displays = {
  laptop: {
    id: 1,
    bounds: { x: 0, y: 0, width: 1_440, height: 900 },
    workArea: { x: 0, y: 25, width: 1_440, height: 875 },
  },
  left: {
    id: 2,
    bounds: { x: -1_920, y: -180, width: 1_920, height: 1_080 },
    workArea: { x: -1_920, y: -150, width: 1_920, height: 1_050 },
  },
} as const satisfies Record<string, Display>

class Screen extends ElectronEmitter {
  #displays: readonly Display[] = Object.values(displays)

  constructor() {
    super('Screen')
  }

  getCursorScreenPoint(): Point {
    app.mustBeReady(`The 'screen' module can't be used`)
    return { x: 0, y: 0 }
  }

  getAllDisplays(): readonly Display[] {
    app.mustBeReady(`The 'screen' module can't be used`)
    return this.#displays
  }

  getDisplayNearestPoint({ x, y }: Point): Display {
    wholeNumber(x, 0)
    wholeNumber(y, 0)
    return this.#nearest({ x, y, width: 0, height: 0 })
  }

  getDisplayMatching(rectangle: Rectangle): Display {
    for (const side of ['x', 'y', 'width', 'height'] as const) wholeNumber(rectangle[side], 0)
    return this.#nearest(rectangle)
  }

  /** As after a display was plugged in or out. */
  change(after: readonly Display[]): void {
    const before = this.#displays
    this.#displays = after
    for (const display of before) {
      const now = after.find(({ id }) => id === display.id)
      if (!now) this.emit('display-removed', {}, display)
      else if (JSON.stringify(now) !== JSON.stringify(display)) {
        this.emit('display-metrics-changed', {}, now, ['bounds', 'workArea'])
      }
    }
    for (const display of after) {
      if (before.every(({ id }) => id !== display.id)) this.emit('display-added', {}, display)
    }
  }

  #nearest(rectangle: Rectangle): Display {
    const [nearest] = this.getAllDisplays().toSorted(
      (one, other) => distance(one.bounds, rectangle) - distance(other.bounds, rectangle),
    )
    if (!nearest) throw new Error('There is no display.')
    return nearest
  }
}

function distance(display: Rectangle, { x, y, width, height }: Rectangle): number {
  const outside = (centre: number, from: number, size: number) => Math.max(from - centre, 0, centre - (from + size))
  return Math.hypot(
    outside(x + width / 2, display.x, display.width),
    outside(y + height / 2, display.y, display.height),
  )
}

export const screen = new Screen()
