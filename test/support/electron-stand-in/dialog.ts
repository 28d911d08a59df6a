interface MessageBox {
  readonly message: string
  readonly detail?: string
  readonly buttons: readonly string[]
  readonly checkboxLabel?: string
}

interface Answer {
  readonly response: number
  readonly checkboxChecked: boolean
}

let shown: { readonly box: MessageBox; readonly press: (answer: Answer) => void } | undefined

/** The question that waits for an answer. */
export const question = (): MessageBox | undefined => shown?.box

/** As a person does. */
export function press(button: string, isChecked: boolean): void {
  const response = shown?.box.buttons.indexOf(button) ?? -1
  if (!shown || response === -1) throw new Error(`There is no button ${button}: ${JSON.stringify(shown?.box)}`)
  const { press: answer } = shown
  shown = undefined
  answer({ response, checkboxChecked: isChecked })
}

/** What a person would have been shown. */
export const dialog = {
  showMessageBox(box: MessageBox): Promise<Answer> {
    return new Promise((resolve) => (shown = { box, press: resolve }))
  },

  showErrorBox(title: string, content: string): void {
    console.error(`${title}: ${content}`)
  },
}
