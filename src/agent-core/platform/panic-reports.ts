import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode } from '../util/files.ts'

/** Where macOS writes what it knows of a kernel panic, once it has started again; administrators may read it. */
export const panicReportFolder = '/Library/Logs/DiagnosticReports'

/** Such as `panic-full-2026-11-23-061402.0002.panic` or `Kernel_2026-11-23-061402_mac.panic`. */
const isPanicReport = (name: string): boolean => name.endsWith('.panic')

/** Whether a report was written at `since` or later. False where the folder is not there or may not be read. */
export async function hasPanicReportSince(folder: string, since: Date): Promise<boolean> {
  try {
    for (const name of (await readdir(folder)).filter(isPanicReport)) {
      if ((await writtenAt(join(folder, name))) >= since.getTime()) return true
    }
    return false
  } catch (error) {
    if (['ENOENT', 'EACCES', 'EPERM'].some((code) => hasCode(error, code))) return false
    throw error
  }
}

/** Long ago where it was removed meanwhile: the system keeps few, and a person may clear them. */
const writtenAt = (report: string): Promise<number> =>
  stat(report).then(
    ({ mtimeMs }) => mtimeMs,
    (error: unknown) => {
      if (hasCode(error, 'ENOENT')) return -Infinity
      throw error
    },
  )
