import { spawn } from 'node:child_process'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { app, clipboard, shell } from 'electron'
import type { Logger } from '../../agent-core/observability/logger.ts'
import { hostPlatform } from '../../agent-core/platform/host.ts'
import { socketPathFor } from '../../agent-core/state/socket-path.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import type { AppVerb, VerbWork } from '../../contract/app-bridge.ts'
import { LinkError, type AgentLink } from '../../contract/client.ts'
import type { Removal, TraceKind } from '../../contract/uninstall.ts'
import { hostOfThisUser, type InstallationHost } from '../../installation/installation-host.ts'
import type { TracePart } from '../../installation/uninstall/traces.ts'
import { probeSocket } from '../../serve/frames.ts'
import type { AgentViewStore } from '../agent/agent-view.ts'
import { machineWords, questionWords } from '../words.ts'
import { ownBundle } from '../system/placement.ts'
import { loginItemState, setLoginItem } from '../system/macos.ts'
import { type Question, showMessageBox } from './questions.ts'

export interface AppUninstallOptions {
  readonly link: Pick<AgentLink, 'command' | 'query' | 'snapshot'>
  readonly view: AgentViewStore
  readonly log: Logger
  readonly stateDir: string
  readonly homeDir: string
  readonly env: NodeJS.ProcessEnv
  readonly platform: NodeJS.Platform
  readonly confirm: (question: Question) => Promise<boolean>
  /** Ends the agent in good order, and then calls `finish` in place of a quit. */
  readonly endBy: (finish: () => void) => Promise<void>
}

/** Everything that Metalbar ever wrote, as the window lists it and the app removes it. */
export type AppUninstall = Pick<VerbWork<AppVerb>, 'traces' | 'uninstall'>

/** What this process writes to until it ends, by the kind that they belong to. */
const openUntilTheEnd = { chromium: 'appData', 'metalbar.log': 'logs' } as const

/** Loaded only when it is asked for: the rest of the app never needs it. */
const load = () => import('../../installation/uninstall/uninstall.ts')
const loadTraces = () => import('../../installation/uninstall/traces.ts')

export function appUninstall(options: AppUninstallOptions): AppUninstall {
  const { link, view, log, stateDir, confirm, endBy } = options
  const platform = hostPlatform()
  const lookNow = async () => {
    const { allParts } = await load()
    const parts = await allParts({
      host: hostOf(options),
      stateDir,
      platform,
      temporaryDir: tmpdir(),
      tell: (sentence) => log.info('uninstall', { text: sentence }),
      inUse: Object.keys(openUntilTheEnd),
      others: [loginItemPart(view)],
    })
    return { parts, serving: await servingNow(link) }
  }
  return {
    traces: async () => {
      const { listTraces } = await loadTraces()
      const { parts, serving } = await lookNow()
      return { traces: await listTraces(parts), serving }
    },
    uninstall: async (kinds) => {
      const chosen = new Set(kinds)
      if (!(await confirm(questionWords.uninstall))) return
      const { removeChosen } = await load()
      const { parts } = await lookNow()
      if (!view.getState().isHere) await endOther(options)
      const onStep = (what: string) => log.info('uninstall', { removes: what })
      const finish = async () => {
        const removals = await removeChosen(parts, { stateDir, platform, chosen, onStep })
        const isTrashed = await tell(removals)
        removeAtTheEnd(options, chosen)
        if (isTrashed) await shell.trashItem(ownBundle())
      }
      await endBy(() => {
        finish().then(
          () => app.exit(0),
          async (error: unknown) => {
            log.error('uninstall failed', { error })
            const { failed: message, quit } = questionWords.uninstalled
            await showMessageBox({ type: 'error', message, detail: messageOf(error), buttons: [quit] })
            app.exit(1)
          },
        )
      })
    },
  }
}

function hostOf({ env, homeDir, platform }: AppUninstallOptions): InstallationHost {
  if (platform !== 'darwin' && platform !== 'linux') throw new LinkError('refused', machineWords.uninstallWhere)
  return hostOfThisUser({ platform, env, homeDir })
}

/** The models of the agent; none where it does not answer. */
async function servingNow(link: AppUninstallOptions['link']): Promise<readonly string[]> {
  const { servedModels } = await load()
  try {
    return await servedModels(link)
  } catch (error) {
    if (error instanceof LinkError) return []
    throw error
  }
}

const loginItemPart = (view: AgentViewStore): TracePart => ({
  kind: 'loginItem',
  look: () => {
    const state = loginItemState(view.getState().misplaced)
    const isOn = state === 'enabled' || state === 'requires-approval'
    return Promise.resolve({
      places: isOn ? [{ path: machineWords.loginItem.place }] : [],
      byHand: [],
      remove: () => Promise.try(() => setLoginItem(false, view.getState().misplaced)),
    })
  },
})

/** Ends the agent of another program. Throws LinkError. */
async function endOther({ link, stateDir }: AppUninstallOptions): Promise<void> {
  const { endAgent } = await load()
  await endAgent(
    () => link.command({ name: 'shutdown' }),
    () => probeSocket(socketPathFor(stateDir, tmpdir()), stateDir),
  )
}

/** Answers whether the app is to go to the Trash. */
async function tell(removals: readonly Removal[]): Promise<boolean> {
  const { all, notAll, appStays, trash, quit, copy } = questionWords.uninstalled
  const left = removals.filter(({ isGone }) => !isGone)
  const lines = left.flatMap(({ byHand }) => byHand)
  const canTrash = app.isPackaged && process.platform === 'darwin'
  const buttons = [...(canTrash ? [trash] : []), quit, ...(lines.length > 0 ? [copy] : [])]
  const texts = left.flatMap(({ what, message, byHand }) => [`${what}: ${message}`, ...byHand])
  for (;;) {
    const answer = await showMessageBox({
      type: left.length === 0 ? 'info' : 'warning',
      message: left.length === 0 ? all : notAll,
      detail: [...texts, appStays].join('\n'),
      buttons,
      defaultId: 0,
      cancelId: buttons.indexOf(quit),
    })
    const pressed = buttons[answer?.response ?? buttons.indexOf(quit)]
    if (pressed !== copy) return pressed === trash
    await clipboard.writeText(lines.join('\n'))
  }
}

/** Waits until this process is gone, and removes what it had open; the folder only where nothing else is in it. */
const afterwards =
  'while kill -0 "$1" 2>/dev/null; do sleep 0.2; done; folder=$2; shift 2; rm -rf -- "$@"; rmdir -- "$folder"'

function removeAtTheEnd({ stateDir, log }: AppUninstallOptions, chosen: ReadonlySet<TraceKind>): void {
  const names = Object.entries(openUntilTheEnd).filter(([, kind]) => chosen.has(kind))
  const files = names.map(([name]) => path.join(stateDir, name))
  // Not execa, which would end it with this process: it has to outlive it.
  const child = spawn('/bin/sh', ['-c', afterwards, 'sh', String(process.pid), stateDir, ...files], {
    detached: true,
    stdio: 'ignore',
    env: { PATH: '/usr/bin:/bin' },
  })
  child.once('error', (error) => log.warn('what is open stays', { text: messageOf(error) }))
  child.unref()
}
