import { app } from 'electron'
import type { Logger } from '../agent-core/observability/logger.ts'

/** Processes of Chromium beside those of pages, such as the one that draws: it starts them anew, and no model is any of them. */
export function logHelperProcesses(log: Logger): void {
  app.on('child-process-gone', (_event, { type, reason, exitCode }) => {
    if (reason === 'clean-exit') return
    log.warn('a helper process of the app ended; what serves is not touched', { type, reason, exitCode })
  })
}
