/** What a person would have been shown. */
export const dialog = {
  showErrorBox(title: string, content: string): void {
    console.error(`${title}: ${content}`)
  },
}
