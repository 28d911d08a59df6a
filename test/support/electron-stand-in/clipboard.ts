/** What the app put into the clipboard. */
export const copied: string[] = []

export const clipboard = {
  writeText(text: string): Promise<void> {
    copied.push(text)
    return Promise.resolve()
  },
}
