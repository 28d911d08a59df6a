import type { Point, Rectangle, Size } from 'electron'

const marginPx = 5

/** Where the window goes: centred under the icon, inside the work area; where the icon is hidden, into the upper right corner. */
export function popoverPosition(icon: Rectangle, window: Size, workArea: Rectangle): Point {
  const right = workArea.x + workArea.width - window.width - marginPx
  const bottom = workArea.y + workArea.height - window.height - marginPx
  if (isHidden(icon)) return { x: Math.round(right), y: workArea.y + marginPx }
  return {
    x: Math.round(clamp(icon.x + icon.width / 2 - window.width / 2, workArea.x + marginPx, right)),
    y: Math.round(clamp(icon.y + icon.height + marginPx, workArea.y + marginPx, bottom)),
  }
}

/** As macOS reports an icon for which there is no room in the menu bar. */
export const isHidden = ({ width, height }: Rectangle) => width === 0 || height === 0

/** A window larger than the work area shows its upper left corner. */
const clamp = (value: number, least: number, most: number) => Math.max(least, Math.min(value, most))
