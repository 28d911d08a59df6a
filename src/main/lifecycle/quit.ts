import { app, powerMonitor } from 'electron'
import type { Logger } from '../../agent-core/observability/logger.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { type AgentView, type AgentViewStore, answer } from '../agent/agent-view.ts'
import type { ShellPreferences } from '../preferences.ts'
import { questionWords } from '../words.ts'
import { askToQuit } from './questions.ts'

export interface QuitOptions {
  readonly log: Logger
  readonly onQuitting: () => void
  /** Withdraws, drains and stops everything, in bounded time; false where something was left. */
  readonly stop: () => Promise<boolean>
  /** Everything is stopped, and nothing may hold up the end. */
  readonly onStopped: () => void
  /** {@link stop} waits for no requests in flight from now on. */
  readonly cutDrains: () => Promise<void>
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
export function stopBeforeQuit({ log, onQuitting, stop, onStopped, cutDrains }: QuitOptions): GoodEnd {
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
      cutDrains().catch((error: unknown) => log.warn('drains not cut', { error }))
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

export interface PersonQuitsOptions {
  readonly view: AgentViewStore
  readonly prefer: (changes: Partial<ShellPreferences>) => Promise<void>
  readonly hide: () => void
}

/** A quit that would take models away is asked about first, where a person wants that. */
export const personQuits =
  ({ view, prefer, hide }: PersonQuitsOptions) =>
  async (): Promise<void> => {
    const state = view.getState()
    if (state.preferences?.onQuit !== 'ask' || !hurtsModels(state)) {
      app.quit()
      return
    }
    const wanted = await askToQuit()
    if (!wanted) return
    const { quits, remembered } = wanted
    if (quits) app.quit()
    else hide()
    if (!remembered) return
    await answer(view, () =>
      prefer({ onQuit: quits ? 'drain' : 'keep' }).then(
        () => undefined,
        (error: unknown) => ({ outcome: 'failed', message: questionWords.quit.notRemembered(messageOf(error)) }),
      ),
    )
  }
