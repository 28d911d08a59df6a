import type { CrashReporterStartOptions } from 'electron'
import { refuseUnknown } from './electron-types.ts'

/** Nothing crashes here. Refuses what would send memory of this machine to anybody. */
export const crashReporter = {
  start(options: CrashReporterStartOptions): void {
    refuseUnknown('CrashReporterStartOptions', options)
    if (options.uploadToServer !== false) throw new Error('crash reports would be uploaded')
  },
}
