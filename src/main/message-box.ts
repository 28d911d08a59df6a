import { app, BaseWindow, dialog, screen, type MessageBoxOptions, type MessageBoxReturnValue } from 'electron'

/** Those that wait for an answer, by what they ask. */
const open = new Map<string, BaseWindow>()

/**
 * In the middle of the screen, as a sheet of a window of its own that nobody sees: without one, macOS runs the question in a loop that
 * nothing else of the app gets a turn in, the agent neither. Undefined where the same is asked already, which is brought to the front.
 */
export async function showMessageBox(options: MessageBoxOptions): Promise<MessageBoxReturnValue | undefined> {
  const asked = open.get(options.message)
  if (asked) {
    bringToFront(asked)
    return undefined
  }
  const window = unseenWindow()
  open.set(options.message, window)
  try {
    bringToFront(window)
    return await dialog.showMessageBox(window, options)
  } finally {
    open.delete(options.message)
    if (!window.isDestroyed()) window.destroy()
  }
}

/** It is shown, as a sheet of a hidden window could not be answered. */
function unseenWindow(): BaseWindow {
  const { workArea } = screen.getDisplayNearestPoint(screen.getCursorScreenPoint())
  return new BaseWindow({
    title: 'Metalbar',
    x: Math.round(workArea.x + workArea.width / 2),
    // Where macOS has its own questions: above the middle.
    y: Math.round(workArea.y + workArea.height / 3),
    width: 1,
    height: 1,
    frame: false,
    transparent: true,
    hasShadow: false,
    resizable: false,
    fullscreenable: false,
    show: false,
  })
}

/** An app without an icon in the Dock is seldom the active one. */
function bringToFront(window: BaseWindow): void {
  app.focus({ steal: true })
  window.show()
  window.focus()
}
