import { existsSync } from 'node:fs'
import path from 'node:path'
import { app, session, shell } from 'electron'
import type { Logger } from '../../agent-core/observability/logger.ts'

/**
 * Saves what the window offers to save into the Downloads folder, and shows it there. Electron would ask for the place in a sheet of the
 * window, which hides when the sheet gets the keys and takes the sheet with it.
 */
export function saveDownloads(log: Logger): void {
  session.defaultSession.on('will-download', (_event, item) => {
    const file = unusedFile(app.getPath('downloads'), item.getFilename())
    item.setSavePath(file)
    item.once('done', (_done, state) => {
      if (state === 'completed') shell.showItemInFolder(file)
      else log.error('a file of the window was not saved', { file, state })
    })
  })
}

/** As Finder names a second one: `report 2.zip`. */
function unusedFile(folder: string, filename: string): string {
  const { name, ext } = path.parse(filename)
  for (let number = 1; ; number += 1) {
    const file = path.join(folder, number === 1 ? `${name}${ext}` : `${name} ${number}${ext}`)
    if (!existsSync(file)) return file
  }
}
