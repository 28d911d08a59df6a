import { existsSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import path from 'node:path'
import { app, systemPreferences } from 'electron'
import { messageOf } from '../../agent-core/util/message-of.ts'
import type { Logger } from '../../agent-core/observability/logger.ts'
import type { AppVerb, VerbWork } from '../../contract/app-bridge.ts'
import type { CommandLinkState, NoUpdates } from '../../contract/app-state.ts'
import type { CommandResult } from '../../contract/commands.ts'
import { sharedWords } from '../../contract/words.ts'
import { type AgentViewStore, onceKnown } from '../agent/agent-view.ts'
import { CommandLink } from './command-link.ts'
import type { Question } from '../lifecycle/questions.ts'
import { inTime, menuLimitMs } from '../tray/menu-lists.ts'
import type { MenuAction } from '../tray/menu-entries.ts'
import type { News } from '../notifications/news.ts'
import { showNews } from '../notifications/tell-news.ts'
import { moveOffer, moveToApplications, ownBundle, placeOfApp } from './placement.ts'
import { lookRegularly, takeHandOver, Updates } from '../updates/updates.ts'
import { UpdateSource } from '../updates/update-source.ts'
import { machineWords, newsWords } from '../words.ts'

export interface InstalledAppOptions {
  readonly log: Logger
  readonly stateDir: string
  readonly homeDir: string
  /** The PATH of the person's own login shell. */
  readonly shellPath: () => Promise<string>
  readonly view: AgentViewStore
  readonly confirm: (question: Question) => Promise<boolean>
  readonly onAction: (action: MenuAction) => void
  /** Whether what ends the app from now on leaves its servers to the next one. */
  readonly keepServers: (areKept: boolean) => void
  /** Ends the agent in good order, and then calls `finish` in place of a quit. */
  readonly endBy: (finish: () => void) => Promise<void>
}

/** The app as something that lies on a disk: where it is, what replaces it, and the command in it. */
export interface InstalledApp extends Pick<VerbWork<AppVerb>, 'update' | 'setCommandLink' | 'moveToApplications'> {
  /** Settles when it is known where the app is. */
  readonly isPlaced: Promise<boolean>
  commandLink(): Promise<CommandLinkState>
}

export function installedApp(options: InstalledAppOptions): InstalledApp {
  const { log, stateDir, homeDir, shellPath, view, confirm, onAction, keepServers, endBy } = options
  const tell = (news: News) => {
    if (view.getState().preferences?.notifications === true) showNews(news, log, onAction)
  }
  const updates = new Updates({
    log,
    stateDir,
    version: app.getVersion(),
    source: new UpdateSource(log),
    refusal: () => noUpdates(view),
    freeBytes: () => freeBytes(homeDir),
    onState: (update) => view.setState({ update, ...(update.step === 'looking' && { lastUpdate: undefined }) }),
    endBy: async (finish) => {
      keepServers(true)
      await endBy(finish)
    },
    relaunch: () => {
      app.relaunch()
      app.exit(0)
    },
  })
  const move = () => moveToApplications({ confirm, onMoving: keepServers })
  const isPlaced = placeOfApp(homeDir).then((misplaced) => {
    view.setState({ misplaced })
    updates.judge()
    // Asked once per start: the menu and the window keep offering it.
    if (misplaced !== undefined) offerMove(moveOffer(misplaced), options, move)
    return misplaced === undefined
  })
  tellLastUpdate(options, tell)
  const looksMayHaveChanged = lookRegularly(
    () => view.getState().preferences?.looksForUpdates === true,
    () => {
      void updates.lookQuietly().then((version) => {
        if (version !== undefined) tell(availableNews(version))
      })
    },
  )
  view.subscribe(({ preferences }, { preferences: before }) => {
    if (preferences !== before) looksMayHaveChanged()
  })
  const link = () =>
    new CommandLink({
      command:
        app.isPackaged && view.getState().misplaced === undefined
          ? path.join(ownBundle(), 'Contents/Resources/bin/metal-agent')
          : undefined,
      homeDir,
      pathVariable: shellPath,
    })
  let looking: Promise<CommandLinkState> | undefined
  const commandLink = () => {
    looking ??= link()
      .state()
      .finally(() => (looking = undefined))
    // A folder of the PATH may be on a disk that does not answer, and the menu waits for it.
    return inTime(looking, menuLimitMs, view.getState().commandLink)
  }
  return {
    isPlaced,
    update: (action) => {
      if (action === 'dismiss') view.setState({ lastUpdate: undefined })
      updates.act(action)
    },
    commandLink,
    setCommandLink: async (isWanted) => {
      if (isWanted) {
        const file = await link().link()
        log.info('linked the command', { file })
        tell(linkedNews(file))
      } else await link().unlink()
      view.setState({ commandLink: await link().state() })
    },
    moveToApplications: move,
  }
}

/** As `defaults write` or a profile of a managed Mac sets it, under the name of the app's bundle. */
const managedKey = 'UpdatesManaged'

function noUpdates(view: AgentViewStore): NoUpdates | undefined {
  // There on macOS alone.
  if (!app.isPackaged || !('isInApplicationsFolder' in app)) return 'source'
  // A package that was built without an address for updates has none to ask.
  if (!existsSync(path.join(process.resourcesPath, 'app-update.yml'))) return 'unpublished'
  if (systemPreferences.getUserDefault(managedKey, 'boolean')) return 'managed'
  return view.getState().misplaced === undefined ? undefined : 'misplaced'
}

const freeBytes = (folder: string): Promise<number | undefined> =>
  statfs(folder).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => undefined,
  )

function offerMove(
  question: Question,
  { confirm, log, view }: InstalledAppOptions,
  move: () => Promise<CommandResult | undefined>,
): void {
  const ask = async () => {
    if (!(await confirm(question))) return
    const result = await move()
    if (result?.outcome === 'failed') view.setState({ answer: result })
  }
  ask().catch((error: unknown) => {
    log.warn('the app was not moved', { error })
    const message = machineWords.move.failed(messageOf(error))
    view.setState({ answer: { outcome: 'failed', message } })
  })
}

function tellLastUpdate({ stateDir, log, view }: InstalledAppOptions, tell: (news: News) => void): void {
  takeHandOver(stateDir, app.getVersion()).then(
    (lastUpdate) => {
      if (lastUpdate === undefined) return
      log.info('starts after an update', { ...lastUpdate })
      view.setState({ lastUpdate })
      const news: News = {
        id: 'update',
        title: sharedWords.lastUpdate(lastUpdate),
        body: newsWords.keptServing,
        click: ['open', at],
      }
      onceKnown(
        view,
        ({ preferences }) => preferences,
        () => tell(news),
      )
    },
    (error: unknown) => log.warn('what became of the update is not known', { error }),
  )
}

const at = { view: 'settings', field: 'updates' } as const

const availableNews = (version: string): News => ({
  id: 'update',
  title: newsWords.available.title(version),
  body: newsWords.available.body,
  click: ['open', at],
})

const linkedNews = (file: string): News => ({
  id: 'command',
  title: newsWords.linked.title,
  body: newsWords.linked.body(file),
  click: ['open', { view: 'settings' }],
})
