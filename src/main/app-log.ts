import path from 'node:path'
// Its variant for Electron would let every page write to the log, past our check of the sender.
import electronLog from 'electron-log/node'
import { createLog } from '../agent-core/observability/log.ts'
import type { LogLevel } from '../agent-core/settings/settings.ts'

/** Then the file is renamed to `metalbar.old.log` and begun anew. */
const maxBytes = 5 * 1_024 * 1_024

/** The app's standard error is not read by anyone, so it writes the lines of `metal-agent` to a file of the state folder. */
export function openAppLog(stateDir: string, level: LogLevel) {
  const log = electronLog.create({ logId: 'metalbar' })
  log.transports.console.level = false
  // Else it looks for a package.json in the working directory, and writes nothing where there is none.
  log.transports.file.setAppName('metalbar')
  log.transports.file.resolvePathFn = () => path.join(stateDir, 'metalbar.log')
  log.transports.file.maxSize = maxBytes
  log.transports.file.format = '{text}'
  log.transports.file.writeOptions = { flag: 'a', mode: 0o600, encoding: 'utf8' }
  return createLog({ level, format: 'json', stream: { write: (line) => log.info(line.trimEnd()) } })
}
