import { app, screen, type Rectangle } from 'electron'
import { displayOf } from './popover-position.ts'

/** The menu bar is laid out by then. */
const layoutMs = 3_000

/** Where macOS has no room for the icon nothing else says that the app runs, and nothing else opens its window. */
export function rescueHiddenIcon(icon: () => Rectangle, onHidden: () => void): void {
  // There on macOS alone, where the bounds say it.
  if (!app.dock) return
  setTimeout(() => {
    const displays = screen.getAllDisplays()
    if (displays.length > 0 && !displayOf(icon(), displays)) onHidden()
  }, layoutMs)
}
