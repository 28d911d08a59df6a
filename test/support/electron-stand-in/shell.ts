/** What the system was asked to open. */
export const opened: string[] = []

export const shell = {
  openPath(file: string): Promise<string> {
    opened.push(file)
    return Promise.resolve('')
  },
}
