import { screen, type BrowserWindow, type Rectangle } from 'electron'
import { displayOf, popoverPosition, withinReach } from './popover-position.ts'
import { windowSize } from './window-forms.ts'

/** Under the first of these that is in a menu bar; in the corner of the display that a person works on where none is. */
export function putUnderIcon(window: BrowserWindow, icons: readonly Rectangle[]): void {
  const displays = screen.getAllDisplays()
  const icon = icons.find((one) => displayOf(one, displays) !== undefined)
  const display = (icon && displayOf(icon, displays)) ?? screen.getDisplayNearestPoint(screen.getCursorScreenPoint())
  const { x, y } = popoverPosition(icon, windowSize, display.workArea)
  window.setPosition(x, y)
}

/** Into the nearest display that is there, where macOS has not moved it itself. */
export function bringWithinReach(window: BrowserWindow): void {
  const displays = screen.getAllDisplays()
  // With the lid closed and nothing plugged in there may be none for a while.
  if (displays.length === 0) return
  const bounds = window.getBounds()
  const place = withinReach(bounds, displays, screen.getDisplayMatching(bounds).workArea)
  if (place) window.setBounds(place)
}
