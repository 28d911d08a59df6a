import { app, powerMonitor } from 'electron'
import type { Logger } from '../agent-core/observability/logger.ts'
import type { AgentView } from './agent-view.ts'

export interface QuitOptions {
  readonly log: Logger
  readonly onQuitting: () => void
  /** Withdraws, drains and stops everything, in bounded time; false where something was left. */
  readonly stop: () => Promise<boolean>
  /** Everything is stopped, and nothing may hold up the end. */
  readonly onStopped: () => void
  /** Cuts what is still drained. */
  readonly skipDrains: () => Promise<void>
}

export interface GoodEnd {
  /** Stops everything as a quit does, and then calls `finish` in place of a quit; does nothing where the app ends already. */
  endBy(finish: () => void): Promise<void>
}

/** So long requests in flight may hold up a logout. */
const hurriedDrainMs = 4_000
/** loginwindow gives up, and cancels the logout, after 45 s; whoever waits for us should not wait that long. */
const hurriedLimitMs = 13_000

/** However the app is asked to quit, it first stops its agent in good order; at a logout or shutdown in little time. Called when the app is ready. */
export function stopBeforeQuit({ log, onQuitting, stop, onStopped, skipDrains }: QuitOptions): GoodEnd {
  let state: 'running' | 'stopping' | 'stopped' = 'running'
  const end = async (finish: (isStopped: boolean) => void) => {
    state = 'stopping'
    log.info('stopping metalbar')
    onQuitting()
    const isStopped = await stop().catch((error: unknown) => {
      log.error('stopping failed', { error })
      return false
    })
    log.info('stopped metalbar')
    state = 'stopped'
    onStopped()
    finish(isStopped)
  }
  app.on('before-quit', (event) => {
    if (state === 'stopped') return
    event.preventDefault()
    if (state === 'stopping') return
    void end((isStopped) => {
      if (isStopped) app.quit()
      else app.exit(1)
    })
  })
  // Electron gives each back to the system after the first, and the second would kill in the middle of a drain.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => app.quit())
  const onShutdown = (event: { preventDefault(): void }) => {
    if (state === 'stopped') return
    event.preventDefault()
    log.info('the system ends')
    setTimeout(() => {
      skipDrains().catch((error: unknown) => log.warn('drains not cut', { error }))
    }, hurriedDrainMs)
    setTimeout(() => {
      log.error('not everything stopped before the system ends', { limitMs: hurriedLimitMs })
      app.exit(1)
    }, hurriedLimitMs)
    app.quit()
  }
  // Electron's types know nothing of the event that its documentation says to prevent.
  powerMonitor.on('shutdown', onShutdown as () => void)
  return {
    endBy: async (finish) => {
      if (state === 'running') await end(finish)
    },
  }
}

/** Whether a quit would take something away that a person may want: a model that serves, or is on its way. */
export const hurtsModels = ({ isHere, snapshot }: AgentView): boolean =>
  isHere && snapshot?.services.some(({ pid, state }) => pid !== undefined || state === 'fetching') === true
