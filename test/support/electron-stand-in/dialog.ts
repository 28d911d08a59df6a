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

let chosen: string | null | undefined

/** Answers the next dialog for a file; null = cancelled. */
export const chooses = (file: string | null): void => void (chosen = file)

/** What a person would have been shown. */
export const dialog = {
  showMessageBox(box: MessageBox): Promise<Answer> {
    return new Promise((resolve) => (shown = { box, press: resolve }))
  },

  showOpenDialog({ properties }: { readonly properties: readonly string[] }) {
    if (chosen === undefined) throw new Error(`Nobody chooses a file (${properties.join(', ')}).`)
    const filePaths = chosen === null ? [] : [chosen]
    chosen = undefined
    return Promise.resolve({ canceled: filePaths.length === 0, filePaths })
  },

  showErrorBox(title: string, content: string): void {
    console.error(`${title}: ${content}`)
  },
}
