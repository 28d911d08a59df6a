interface MessageBox {
  readonly message: string
  readonly detail: string
  readonly buttons: readonly string[]
}

let shown: { readonly box: MessageBox; readonly press: (response: number) => void } | undefined

/** The question that waits for an answer. */
export const question = (): MessageBox | undefined => shown?.box

/** As a person does. */
export function press(button: string): void {
  const response = shown?.box.buttons.indexOf(button) ?? -1
  if (!shown || response === -1) throw new Error(`There is no button ${button}: ${JSON.stringify(shown?.box)}`)
  shown.press(response)
  shown = undefined
}

/** What a person would have been shown. */
export const dialog = {
  showMessageBox(box: MessageBox): Promise<{ response: number }> {
    return new Promise((resolve) => (shown = { box, press: (response) => resolve({ response }) }))
  },

  showErrorBox(title: string, content: string): void {
    console.error(`${title}: ${content}`)
  },
}
