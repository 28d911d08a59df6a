import { app } from './app.ts'
import { BaseWindow } from './base-window.ts'
import { BrowserWindow } from './browser-window.ts'
import { choicesOf, refuseOtherChoice, refuseUnknown } from './electron-types.ts'

interface MessageBox {
  readonly type?: string
  readonly message: string
  readonly detail?: string
  readonly buttons: readonly string[]
  readonly checkboxLabel?: string
  readonly cancelId?: number
}

interface Answer {
  readonly response: number
  readonly checkboxChecked: boolean
}

interface Shown {
  readonly box: MessageBox
  readonly press: (answer: Answer) => void
}

/** In the order in which they were asked. */
const shown = new Set<Shown>()

/** The question that was asked last of those that wait for an answer. */
export const question = (): MessageBox | undefined => [...shown].at(-1)?.box

/** As a person does. */
export function press(button: string, isChecked: boolean): void {
  const asked = [...shown].findLast(({ box }) => box.buttons.includes(button))
  if (!asked) throw new Error(`There is no button ${button}: ${JSON.stringify(question())}`)
  asked.press({ response: asked.box.buttons.indexOf(button), checkboxChecked: isChecked })
}

let chosen: string | null | undefined

/** Answers the next dialog for a file; null = cancelled. */
export const chooses = (file: string | null): void => void (chosen = file)

function mustBeReady(): void {
  if (!app.isReady()) throw new Error('dialog module can only be used after app is ready')
}

/** What a person would have been shown. */
export const dialog = {
  /** Without a window macOS runs it in a loop of its own, in which nothing of the app gets a turn. */
  showMessageBox(window: unknown, box: MessageBox): Promise<Answer> {
    mustBeReady()
    if (!(window instanceof BaseWindow || window instanceof BrowserWindow))
      throw blocks('showMessageBox without a window')
    refuseUnknown('MessageBoxOptions', box)
    refuseOtherChoice('MessageBoxOptions', 'type', box.type)
    if (!window.isShown) throw new Error('A question of a hidden window could not be answered.')
    return new Promise((resolve) => {
      const asked = {
        box,
        press: (answer: Answer) => {
          shown.delete(asked)
          resolve(answer)
        },
      }
      shown.add(asked)
      window.once('close', () => asked.press({ response: box.cancelId ?? 0, checkboxChecked: false }))
      window.once('closed', () => shown.delete(asked))
    })
  },

  /** Beside the app's windows where it has none of its own: it blocks nothing. */
  showOpenDialog(options: { readonly properties: readonly string[] }) {
    mustBeReady()
    refuseUnknown('OpenDialogOptions', options)
    const { properties } = options
    const known = choicesOf('OpenDialogOptions', 'properties')
    const unknown = properties.filter((property) => !known.has(property))
    if (unknown.length > 0) throw new TypeError(`A dialog for a file has no property ${unknown.join(', ')}.`)
    if (!app.isActive()) throw new Error('A dialog for a file opens behind the app that a person works in.')
    if (chosen === undefined) throw new Error(`Nobody chooses a file (${properties.join(', ')}).`)
    const filePaths = chosen === null ? [] : [chosen]
    chosen = undefined
    return Promise.resolve({ canceled: filePaths.length === 0, filePaths })
  },

  showErrorBox: () => {
    throw blocks('showErrorBox')
  },
  showMessageBoxSync: () => {
    throw blocks('showMessageBoxSync')
  },
  showOpenDialogSync: () => {
    throw blocks('showOpenDialogSync')
  },
  showSaveDialogSync: () => {
    throw blocks('showSaveDialogSync')
  },
}

const blocks = (what: string) => new Error(`${what} blocks the app, and its agent, until a person answers.`)
