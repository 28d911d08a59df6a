import { createLog, type Log } from '../agent-core/observability/log.ts'
import { LogFile } from '../agent-core/observability/log-file.ts'
import type { Platform } from '../agent-core/platform/platform.ts'
import type { AgentSettings } from '../agent-core/settings/settings.ts'
import { acquireLock } from '../agent-core/state/lock.ts'
import { startTimeOf } from '../agent-core/state/start-time.ts'
import { hasCode } from '../agent-core/util/files.ts'
import { messageOf } from '../agent-core/util/message-of.ts'
import type { CliIo } from './io.ts'

interface AgentLog {
  readonly ok: true
  readonly log: Log
  close(): Promise<void>
}

/** What a disk answers that may be better later: the agent serves meanwhile, and its log goes on when it can. */
const passing = ['ENOSPC', 'EDQUOT', 'EROFS', 'EIO', 'EMFILE', 'ENFILE']

/** The agent's own log, on standard error or in the file that is set; otherwise one sentence why that file cannot be used. */
export async function openAgentLog(
  settings: AgentSettings,
  platform: Platform,
  { stderr }: Pick<CliIo, 'stderr'>,
): Promise<AgentLog | { readonly ok: false; readonly message: string }> {
  const { logFile, logFileBytes, logFileCount, logLevel: level, logFormat: format } = settings
  if (logFile === undefined) return { ok: true, log: createLog({ level, format }), close: () => Promise.resolve() }
  const tell = (message: string): void => void stderr.write(`metal-agent: ${message}\n`)
  const file = new LogFile({
    file: logFile,
    maxBytes: logFileBytes,
    count: logFileCount,
    onTrouble: tell,
    onRecovered: (lostLines) => log.warn('lines of the log were lost', { lostLines }),
    onLate: (line) => void stderr.write(line),
  })
  const log = createLog({ level, format, stream: file })
  const why = problemOf(() => file.open())
  if (why !== undefined && !why.mayPass) {
    return {
      ok: false,
      message: `--log-file ${logFile} cannot be used: ${why.text}; name another file, or leave the flag out.`,
    }
  }
  const locked = await acquireLock({
    file: `${logFile}.lock`,
    processStartTime: (pid) => startTimeOf(platform, pid),
    guards: { what: `the log ${logFile}`, instead: 'another --log-file' },
  })
  if (!locked.ok && locked.holder !== undefined) {
    file.close()
    return locked
  }
  tell(`the log goes to ${logFile}.`)
  if (!locked.ok) log.warn('the log is not guarded against a second agent', { text: locked.message })
  const close = async (): Promise<void> => {
    file.close()
    if (locked.ok) await locked.lock.release()
  }
  return { ok: true, log, close }
}

function problemOf(attempt: () => void): { readonly text: string; readonly mayPass: boolean } | undefined {
  try {
    attempt()
    return undefined
  } catch (error) {
    return { text: messageOf(error), mayPass: passing.some((code) => hasCode(error, code)) }
  }
}
