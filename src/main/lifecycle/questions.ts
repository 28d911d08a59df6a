import { app, BaseWindow, dialog, type MessageBoxOptions, type MessageBoxReturnValue, screen } from 'electron'
import { sharedWords } from '../../contract/words.ts'
import { questionWords } from '../words.ts'

export interface Question {
  readonly message: string
  readonly detail?: string
  /** The one that does it; the other is Cancel where it is not named. */
  readonly yes: string
  readonly no?: string
}

/** Beside the icon's menu, which closes when something is chosen. Cancel is what Return and Esc mean; false where the same is asked already. */
export async function confirm({ message, detail, yes, no = questionWords.cancel }: Question): Promise<boolean> {
  const answer = await showMessageBox({
    type: 'question',
    message,
    ...(detail !== undefined && { detail }),
    buttons: [yes, no],
    defaultId: 1,
    cancelId: 1,
  })
  return answer?.response === 0
}

/** Undefined where it is asked already. */
export async function askToQuit(): Promise<{ readonly quits: boolean; readonly remembered: boolean } | undefined> {
  const { message, detail, remember } = questionWords.quit
  const answer = await showMessageBox({
    type: 'question',
    message,
    detail,
    buttons: [sharedWords.onQuits.keep, sharedWords.onQuits.drain],
    checkboxLabel: remember,
    defaultId: 0,
    cancelId: 0,
  })
  return answer && { quits: answer.response === 1, remembered: answer.checkboxChecked }
}

/** Explains why the window opened without an icon; does not block it. */
export async function tellHiddenIcon(): Promise<void> {
  await showMessageBox({ type: 'info', ...questionWords.hiddenIcon, buttons: [questionWords.ok] })
}

export async function tellCannotStart(why: string): Promise<void> {
  const { cannotStart: message, ok } = questionWords
  await showMessageBox({ type: 'error', message, detail: why, buttons: [ok] })
}

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
    title: sharedWords.app,
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
