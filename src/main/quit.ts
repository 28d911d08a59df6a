import { app } from 'electron'
import type { Logger } from '../agent-core/observability/logger.ts'

export interface QuitOptions {
  readonly log: Logger
  readonly onQuitting: () => void
  /** Withdraws, drains and stops everything, in bounded time; false where something was left. */
  readonly stop: () => Promise<boolean>
}

/** However the app is asked to quit, it first stops its agent in good order. */
export function stopBeforeQuit({ log, onQuitting, stop }: QuitOptions): void {
  let state: 'running' | 'stopping' | 'stopped' = 'running'
  const end = async () => {
    const isStopped = await stop().catch((error: unknown) => {
      log.error('stopping failed', { error })
      return false
    })
    log.info('stopped metalbar')
    state = 'stopped'
    if (isStopped) app.quit()
    else app.exit(1)
  }
  app.on('before-quit', (event) => {
    if (state === 'stopped') return
    event.preventDefault()
    if (state === 'stopping') return
    state = 'stopping'
    log.info('stopping metalbar')
    onQuitting()
    void end()
  })
}
