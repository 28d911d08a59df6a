import type { Display, Point, Rectangle, Size } from 'electron'

const marginPx = 5

/** Where a menu bar that hides itself comes down. */
const hidingBarPx = 40

/** Where the window goes: centred under the icon, inside the work area; where the icon is hidden, into the upper right corner. */
export function popoverPosition(icon: Rectangle | undefined, window: Size, workArea: Rectangle): Point {
  const right = workArea.x + workArea.width - window.width - marginPx
  const bottom = workArea.y + workArea.height - window.height - marginPx
  if (!icon) return { x: whole(right), y: whole(workArea.y + marginPx) }
  return {
    x: whole(clamp(icon.x + icon.width / 2 - window.width / 2, workArea.x + marginPx, right)),
    y: whole(clamp(icon.y + icon.height + marginPx, workArea.y + marginPx, bottom)),
  }
}

/**
 * The display whose menu bar holds the icon. None where macOS has no room for it: it then reports a place outside of every bar, as below
 * the screen, or none at all.
 */
export function displayOf<D extends Pick<Display, 'bounds' | 'workArea'>>(
  { x, y, width, height }: Rectangle,
  displays: readonly D[],
): D | undefined {
  if (width === 0 || height === 0) return undefined
  const centre = { x: x + width / 2, y: y + height / 2 }
  return displays.find(({ bounds, workArea }) => {
    const barEnd = workArea.y > bounds.y ? workArea.y : bounds.y + hidingBarPx
    const isBeside = centre.x >= bounds.x && centre.x < bounds.x + bounds.width
    return isBeside && centre.y >= bounds.y && centre.y < barEnd
  })
}

/** So much of a title bar a person can take hold of. */
const gripPx = { width: 60, height: 20 }

/**
 * Moves a window whose title bar is on no display into this work area, and makes it no larger than that. Undefined if its title bar can
 * be grabbed as it is, however little of it is visible.
 */
export function withinReach(
  window: Rectangle,
  displays: readonly Pick<Display, 'bounds'>[],
  workArea: Rectangle,
): Rectangle | undefined {
  if (displays.some(({ bounds }) => hasGrip(window, bounds))) return undefined
  const [width, height] = [Math.min(window.width, workArea.width), Math.min(window.height, workArea.height)]
  return {
    x: whole(clamp(window.x, workArea.x, workArea.x + workArea.width - width)),
    y: whole(clamp(window.y, workArea.y, workArea.y + workArea.height - height)),
    width: whole(width),
    height: whole(height),
  }
}

function hasGrip(window: Rectangle, display: Rectangle): boolean {
  const across = Math.min(window.x + window.width, display.x + display.width) - Math.max(window.x, display.x)
  const down = Math.min(window.y + gripPx.height, display.y + display.height) - Math.max(window.y, display.y)
  return across >= gripPx.width && down >= gripPx.height
}

/** A window larger than the work area shows its upper left corner. */
const clamp = (value: number, least: number, most: number) => Math.max(least, Math.min(value, most))

/** Electron refuses fractions, and the -0 that rounding may give. */
const whole = (value: number) => Math.round(value) + 0
