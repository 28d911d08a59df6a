import { z } from 'zod'
import type { Logger } from '../agent-core/observability/logger.ts'
import {
  chosenFiles,
  powerRuleChanges,
  systemPanes,
  updateActions,
  windowViews,
  type AppState,
  type ChosenFile,
  type LookedAt,
  type PowerRuleChange,
  type PreferenceChanges,
  type SystemPane,
  type UpdateAction,
} from '../contract/app-bridge.ts'
import { LinkError, type AgentLink } from '../contract/client.ts'
import { serviceRef, type CommandResult } from '../contract/commands.ts'
import { logRun } from '../contract/log.ts'
import { traceKinds, type TraceKind, type TraceList } from '../contract/uninstall.ts'
import { channels } from './ipc-channels.ts'
import { handle } from './ipc-handle.ts'
import { preferenceKeys } from './preferences.ts'

/** Each throws a LinkError where it does not do it. */
export interface AppControls {
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

/** No uid of a cluster is as long as this. */
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
    if (file === undefined) throw new LinkError('refused', 'There is no file of that run.')
    await controls.showLogInFolder(file)
  })
  doing(channels.keep, z.boolean(), (isKept) => controls.onKeep(isKept))
  doing(channels.hide, z.undefined(), controls.hide)
  doing(channels.tearOff, lookedAt, (at) => controls.tearOff(at))
  doing(channels.escape, z.undefined(), controls.onEscape)
  doing(channels.focus, z.boolean(), (hasKeys) => controls.onFocus(hasKeys))
}
