import { tmpdir, userInfo } from 'node:os'
import { app, dialog, powerMonitor, powerSaveBlocker, safeStorage, shell, systemPreferences } from 'electron'
import type { Logger } from '../../agent-core/observability/logger.ts'
import type { HoldAwake } from '../../agent-core/power/stay-awake.ts'
import { leaveOf } from '../../agent-core/power/sudoers.ts'
import type { ChosenFile, PowerRuleChange, SystemPane } from '../../contract/app-bridge.ts'
import type { LoginItemState, Misplaced } from '../../contract/app-state.ts'
import { type AgentLink, LinkError } from '../../contract/client.ts'
import { localNetworkPane } from '../../contract/cluster.ts'
import type { CommandResult } from '../../contract/commands.ts'
import { sharedWords } from '../../contract/words.ts'
import type { Cipher } from './kept-token.ts'
import { changePowerRule, measurePower, type MeasurePowerOptions, type OwnCommand } from './measure-power.ts'
import type { Question } from '../lifecycle/questions.ts'
import { linkScheme, type LinkTarget, targetOf } from '../window/show-target.ts'
import { machineWords, questionWords } from '../words.ts'

/**
 * App Nap slows the timers of an app without windows to one in eight seconds, and claims are renewed by timers. A power save blocker prevents
 * that too, but it also keeps the Mac from going to sleep (IOPMAssertion NoIdleSleep), which `--sleep-policy` allows only while models work.
 * macOS reads this when an app starts, so that it counts from the next start on; the package says it for the first one.
 */
export function refuseAppNap(): void {
  // There on macOS alone.
  if ('setUserDefault' in systemPreferences) systemPreferences.setUserDefault('NSAppSleepDisabled', 'boolean', true)
}

/** The system does not go to sleep by itself, and does not slow this app's timers (App Nap); the display may go off. */
export const holdAwake: HoldAwake = () => {
  const id = powerSaveBlocker.start('prevent-app-suspension')
  return {
    get isHeld() {
      return powerSaveBlocker.isStarted(id)
    },
    release: () => void powerSaveBlocker.stop(id),
  }
}

export interface FollowSupplyOptions {
  readonly log: Logger
  readonly onSupply: () => Promise<void>
}

/** The system says when the plug is pulled or put in. */
export function followSupply({ log, onSupply }: FollowSupplyOptions): void {
  const tell = () => {
    onSupply().catch((error: unknown) => log.error('a change of the power supply was not followed', { error }))
  }
  powerMonitor.on('on-ac', tell)
  powerMonitor.on('on-battery', tell)
}

export interface FollowSleepOptions {
  readonly log: Logger
  readonly onSleep: (isAsleep: boolean) => Promise<void>
  /** Before the agent hears of it. */
  readonly onWoke: () => void
}

/** The system says that it sleeps shortly before it does, and when it woke. */
export function followSleep({ log, onSleep, onWoke }: FollowSleepOptions): void {
  const tell = (isAsleep: boolean) => {
    onSleep(isAsleep).catch((error: unknown) => log.error('a sleep was not followed', { isAsleep, error }))
  }
  powerMonitor.on('suspend', () => tell(true))
  powerMonitor.on('resume', () => {
    onWoke()
    tell(false)
  })
}

/** Chromium's helper processes, such as the one that draws: Chromium restarts them itself, and no model runs in them. */
export function logHelperProcesses(log: Logger): void {
  app.on('child-process-gone', (_event, { type, reason, exitCode }) => {
    if (reason === 'clean-exit') return
    log.warn('a helper process of the app ended; what serves is not touched', { type, reason, exitCode })
  })
}

/** For a second after it was shown Electron does not hide it, since macOS would keep a second one; and a timer may come early. */
const settleMs = 1_100

/** The icon in the Dock, which the app has while a window of its own is open. */
export class DockIcon {
  #shownAt = -Infinity
  #hiding: NodeJS.Timeout | undefined

  show(): void {
    clearTimeout(this.#hiding)
    this.#shownAt = performance.now()
    void app.dock?.show()
  }

  hide(): void {
    clearTimeout(this.#hiding)
    const waitMs = Math.max(0, this.#shownAt + settleMs - performance.now())
    this.#hiding = setTimeout(() => app.dock?.hide(), Math.ceil(waitMs))
  }
}

const type = 'mainAppService'

/** What runs from the sources is Electron itself, which nobody wants to be opened at login; a disk image will not be there then. */
export function loginItemState(misplaced: Misplaced | undefined): LoginItemState {
  if (!app.isPackaged || misplaced !== undefined) return 'unavailable'
  const status = systemStatus()
  // macOS 26 says so of an app that was never registered, as of one that it cannot find.
  return status === 'not-found' ? 'not-registered' : (status ?? 'unavailable')
}

/** There since macOS 13, and on macOS alone. */
const systemStatus = () =>
  (app.getLoginItemSettings({ type }) as Partial<ReturnType<typeof app.getLoginItemSettings>>).status

/** macOS may want to be asked for leave, which the state says afterwards. Throws LinkError. */
export function setLoginItem(isOn: boolean, misplaced: Misplaced | undefined): void {
  if (loginItemState(misplaced) === 'unavailable') {
    throw new LinkError('refused', sharedWords.onlyInstalled)
  }
  app.setLoginItemSettings({ openAtLogin: isOn, type })
  if (isOn && systemStatus() === 'not-found') {
    throw new LinkError('refused', machineWords.loginItem.unknown)
  }
}

/** The key is in the system's keychain, and only this app gets it; on Linux without one Electron would only obfuscate. */
export const keychain = (platform: NodeJS.Platform): Cipher => ({
  isPossible: () => platform !== 'linux' || safeStorage.getSelectedStorageBackend() !== 'basic_text',
  // Only the asynchronous calls: the keychain may ask a person for a password, which must not block the agent.
  isThere: () => safeStorage.isAsyncEncryptionAvailable(),
  encrypt: (text) => safeStorage.encryptStringAsync(text),
  decrypt: async (content) => {
    const { result, shouldReEncrypt } = await safeStorage.decryptStringAsync(content)
    return { text: result, isOutdated: shouldReEncrypt }
  },
})

/** Undefined where the person chose none. A page never names a file to be opened: what is chosen is only told to it. */
export async function chooseFile(what: ChosenFile): Promise<string | undefined> {
  // Without it the dialog of an app that has no icon in the Dock may open behind the app a person works in.
  app.focus({ steal: true })
  const { canceled, filePaths } = await dialog.showOpenDialog({
    title: questionWords.files[what],
    message: questionWords.files[what],
    buttonLabel: questionWords.choose,
    // A kubeconfig is in a folder that the system hides, and a program may be a link to another.
    properties: ['openFile', 'showHiddenFiles', 'noResolveAliases'],
  })
  return canceled ? undefined : filePaths[0]
}

/** All that is ever opened outside of the app by a page; it names one, and no address. */
const panes: Readonly<Record<SystemPane, string>> = {
  loginItems: 'x-apple.systempreferences:com.apple.LoginItems-Settings.extension',
  localNetwork: localNetworkPane,
  notifications: 'x-apple.systempreferences:com.apple.Notifications-Settings.extension',
}

export const openPane = (pane: SystemPane): Promise<void> => shell.openExternal(panes[pane])

export interface FollowLinksOptions {
  readonly log: Logger
  /** Whether the app is where it stays. */
  readonly isPlaced: Promise<boolean>
  readonly onLink: (target: LinkTarget) => void
}

/**
 * Called before the app is ready, since the link that started it comes early. The log says only that a link came, never what it contained.
 * Returns what is to be called when the window can be shown.
 */
export function catchLinks(): (options: FollowLinksOptions) => void {
  const early: string[] = []
  let take = (link: string): void => void early.push(link)
  app.on('open-url', (event, link) => {
    event.preventDefault()
    take(link)
  })
  return ({ log, isPlaced, onLink }) => {
    void isPlaced.then((stays) => {
      // Run from the sources, this would register Electron itself for such links.
      if (app.isPackaged && stays) app.setAsDefaultProtocolClient(linkScheme)
    })
    take = (link) => {
      const target = targetOf(link)
      if (target) onLink(target)
      else log.warn('a link that opens nothing', { length: link.length })
    }
    const newest = early.pop()
    if (early.length > 0) log.warn('links that came before a newer one', { count: early.length })
    if (newest !== undefined) take(newest)
  }
}

export interface OwnPower {
  readonly link: Pick<AgentLink, 'command'>
  readonly own: OwnCommand
  readonly confirm: (question: Question) => Promise<boolean>
}

/** With this app's own command, in Terminal. */
export const measurePowerHere = (own: OwnPower): Promise<CommandResult | undefined> => measurePower(optionsOf(own))

/** Sudo's rule alone. */
export const changePowerRuleHere = (own: OwnPower, change: PowerRuleChange): Promise<CommandResult | undefined> =>
  changePowerRule(optionsOf(own), change)

const optionsOf = ({ link, own, confirm }: OwnPower): MeasurePowerOptions => ({
  link,
  temporaryDir: tmpdir(),
  own,
  confirm: (detail, change) => confirm({ message: questionWords.power[change], detail, yes: questionWords.power.yes }),
  openFile: (file) => shell.openPath(file),
  leave: () => leaveOf({ name: userInfo().username, id: userInfo().uid }),
})
