/** What the system was asked to open, or to show. */
export const opened: string[] = []

export const shell = {
  showItemInFolder(file: string): void {
    opened.push(file)
  },

  trashItem(file: string): Promise<void> {
    opened.push(file)
    return Promise.resolve()
  },

  openPath(file: string): Promise<string> {
    opened.push(file)
    return Promise.resolve('')
  },

  openExternal(url: string): Promise<void> {
    opened.push(new URL(url).href)
    return Promise.resolve()
  },
}
