import { app, BrowserWindow, ipcMain, type IpcMainInvokeEvent, type WebContents } from 'electron'
import { z } from 'zod'
import type { Logger } from '../../agent-core/observability/logger.ts'
import {
  type AppState,
  type BridgeReply,
  type ChosenFile,
  chosenFiles,
  type CommandLinkState,
  type LookedAt,
  type PowerRuleChange,
  powerRuleChanges,
  type PreferenceChanges,
  type SystemPane,
  systemPanes,
  type UpdateAction,
  updateActions,
  windowViews,
} from '../../contract/app-bridge.ts'
import { type AgentLink, LinkError, lookers } from '../../contract/client.ts'
import { commandRequest, type CommandResult, serviceRef } from '../../contract/commands.ts'
import type { DoctorFinding } from '../../contract/doctor.ts'
import { logRun, streamRequest } from '../../contract/log.ts'
import { query } from '../../contract/queries.ts'
import { type TraceKind, traceKinds, type TraceList } from '../../contract/uninstall.ts'
import type { AgentViewStore } from '../agent/agent-view.ts'
import { appOrigin } from './app-scheme.ts'
import { channels } from '../ipc-channels.ts'
import type { KeptToken } from '../system/kept-token.ts'
import { withAppFindings } from '../system/app-doctor.ts'
import { loginItemState } from '../system/macos.ts'
import { PageListeners, PageQuestions } from './page.ts'
import { preferenceKeys, setByPerson } from '../preferences.ts'
import { windowWords } from '../words.ts'

const id = z.string().min(1).max(100)
const listenRequest = z.object({
  id,
  request: z.discriminatedUnion('name', [
    z.object({ name: z.literal('snapshot'), looker: z.enum(lookers).default('window') }),
    ...streamRequest.options,
  ]),
})

/** The contract over Electron's IPC, for the app's window alone; `ofApp`: what the app's own questions find. */
export function serveIpc(link: AgentLink, log: Logger, ofApp: () => readonly DoctorFinding[] = () => []): void {
  const listenersOf = ofEachPage((window) => new PageListeners(link, window))
  const questionsOf = ofEachPage((window) => new PageQuestions(link, window))
  handle(log, channels.snapshot, z.undefined(), () => link.snapshot())
  handle(log, channels.command, commandRequest, ({ command, requestId }) => link.command(command, requestId))
  handle(log, channels.query, z.object({ id, query }), async (asked, page) =>
    withAppFindings(asked.query, await questionsOf(page).ask(asked.id, asked.query), ofApp),
  )
  handle(log, channels.withdraw, z.object({ id }), (asked, page) => questionsOf(page).withdraw(asked.id))
  handle(log, channels.listen, listenRequest, (asked, page) => listenersOf(page).add(asked.id, asked.request))
  handle(log, channels.leave, z.object({ id }), (asked, page) => listenersOf(page).remove(asked.id))
}

type PageWindow = ConstructorParameters<typeof PageListeners>[1]

/** What is made once for each page, from its window. */
function ofEachPage<T>(make: (window: PageWindow) => T): (page: WebContents) => T {
  const made = new WeakMap<WebContents, { readonly of: T }>()
  return (page) => {
    const known = made.get(page)
    if (known) return known.of
    const window = BrowserWindow.fromWebContents(page)
    if (!window) throw new LinkError('refused', windowWords.noWindow)
    const of = make(window)
    made.set(page, { of })
    return of
  }
}

/** The only place that registers channels: the sender is checked first, then the request; every failure is an answer. */
function handle<T>(
  log: Logger,
  channel: string,
  schema: z.ZodType<T>,
  run: (content: T, page: WebContents) => unknown,
): void {
  ipcMain.handle(channel, async (event, content: unknown): Promise<BridgeReply<unknown>> => {
    if (!isOurPage(event)) {
      log.warn('a page that is not ours asked the agent', { channel, origin: event.senderFrame?.origin })
      return failure(new LinkError('refused', windowWords.notOurPage))
    }
    const parsed = schema.safeParse(content)
    if (!parsed.success) {
      const why = z.prettifyError(parsed.error).replaceAll('\n', ' ')
      return failure(new LinkError('misunderstood', windowWords.notUnderstood(why)))
    }
    try {
      return { ok: true, value: await run(parsed.data, event.sender) }
    } catch (error) {
      if (error instanceof LinkError) return failure(error)
      // Its window was closed while it asked, and nobody waits for the answer.
      if (event.sender.isDestroyed()) return failure(new LinkError('gone', windowWords.closed))
      log.error('a request of the window failed', { channel, error })
      return failure(new LinkError('refused', windowWords.failed))
    }
  })
}

/** A frame that has navigated or gone meanwhile is null. */
const isOurPage = ({ sender, senderFrame }: IpcMainInvokeEvent) =>
  senderFrame !== null && senderFrame === sender.mainFrame && senderFrame.origin === appOrigin

const failure = ({ code, message }: LinkError): BridgeReply<never> => ({ ok: false, failure: { code, message } })

/** Each throws a LinkError where it does not do it. */
interface AppControls {
  readonly state: () => Promise<AppState>
  readonly setHubToken: (token: string) => Promise<void>
  readonly removeHubToken: () => Promise<void>
  readonly setLoginItem: (isOn: boolean) => void
  readonly prefer: (changes: PreferenceChanges) => Promise<void>
  readonly chooseFile: (what: ChosenFile) => Promise<string | undefined>
  readonly openPane: (pane: SystemPane) => Promise<void>
  /** Undefined where the person does not want it. */
  readonly changePowerRule: (change: PowerRuleChange) => Promise<CommandResult | undefined>
  readonly update: (action: UpdateAction) => void
  readonly setCommandLink: (isWanted: boolean) => Promise<void>
  /** Undefined where the person does not want it. */
  readonly moveToApplications: () => Promise<CommandResult | undefined>
  readonly traces: () => Promise<TraceList>
  readonly uninstall: (kinds: readonly TraceKind[]) => Promise<unknown>
  readonly showLogInFolder: (file: string) => Promise<void>
  readonly onEscape: () => void
  readonly onFocus: (hasKeys: boolean) => void
  readonly onKeep: (isKept: boolean) => void
  readonly hide: () => void
  readonly tearOff: (at: LookedAt) => Promise<void>
}

/** Whatever may have been pasted: whether it is a token is judged, with a sentence for the person, where it is kept. */
const token = z.string().max(65_536)

/** Longer than any uid of a cluster. */
const maxUid = 200
const lookedAt = z.union([
  z.strictObject({ view: z.enum(windowViews) }),
  z.strictObject({ service: z.string().min(1).max(maxUid) }),
])

/** What the app does for its own window beside the contract. */
export function serveAppIpc(link: Pick<AgentLink, 'query'>, log: Logger, controls: AppControls): void {
  const changing = <T>(channel: string, schema: z.ZodType<T>, change: (content: T) => unknown) =>
    handle(log, channel, schema, async (content) => {
      await change(content)
      return controls.state()
    })
  const doing = <T>(channel: string, schema: z.ZodType<T>, work: (content: T) => unknown) =>
    handle(log, channel, schema, async (content) => {
      await work(content)
      return null
    })
  handle(log, channels.appState, z.undefined(), () => controls.state())
  changing(channels.setHubToken, token, (given) => controls.setHubToken(given))
  changing(channels.removeHubToken, z.undefined(), () => controls.removeHubToken())
  changing(channels.setLoginItem, z.boolean(), (isOn) => controls.setLoginItem(isOn))
  changing(channels.prefer, z.strictObject(preferenceKeys).partial(), (changes) => controls.prefer(changes))
  handle(log, channels.chooseFile, z.enum(chosenFiles), async (what) => (await controls.chooseFile(what)) ?? null)
  doing(channels.openPane, z.enum(systemPanes), (pane) => controls.openPane(pane))
  handle(
    log,
    channels.changePowerRule,
    z.enum(powerRuleChanges),
    async (change) => (await controls.changePowerRule(change)) ?? null,
  )
  changing(channels.update, z.enum(updateActions), (action) => controls.update(action))
  changing(channels.setCommandLink, z.boolean(), (isWanted) => controls.setCommandLink(isWanted))
  handle(log, channels.moveToApplications, z.undefined(), async () => (await controls.moveToApplications()) ?? null)
  handle(log, channels.traces, z.undefined(), () => controls.traces())
  doing(channels.uninstall, z.array(z.enum(traceKinds)), (kinds) => controls.uninstall(kinds))
  doing(channels.revealLog, z.object({ service: serviceRef, run: logRun }), async (asked) => {
    // A page names a run, never a file.
    const { file } = await link.query({ name: 'log', ...asked, lines: 1 })
    if (file === undefined) throw new LinkError('refused', windowWords.noLog)
    await controls.showLogInFolder(file)
  })
  doing(channels.keep, z.boolean(), (isKept) => controls.onKeep(isKept))
  doing(channels.hide, z.undefined(), controls.hide)
  doing(channels.tearOff, lookedAt, (at) => controls.tearOff(at))
  doing(channels.escape, z.undefined(), controls.onEscape)
  doing(channels.focus, z.boolean(), (hasKeys) => controls.onFocus(hasKeys))
}

/** What the app's own window may know of the app; never the token. */
export async function appState(
  view: AgentViewStore,
  token: Pick<KeptToken, 'state'>,
  commandLink: () => Promise<CommandLinkState>,
  isTornOff: () => boolean,
): Promise<AppState> {
  const hubToken = await token.state()
  const link = await commandLink()
  const { preferences, isHere, update, lastUpdate, misplaced } = view.getState()
  return {
    hubToken,
    loginItem: loginItemState(misplaced),
    isHere,
    isTornOff: isTornOff(),
    version: app.getVersion(),
    update,
    commandLink: link,
    ...(lastUpdate && { lastUpdate }),
    ...(misplaced && { misplaced }),
    ...(preferences && { preferences: setByPerson(preferences) }),
  }
}
