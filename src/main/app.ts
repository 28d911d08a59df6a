import { mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { app, clipboard, crashReporter, Menu, type MenuItemConstructorOptions, shell } from 'electron'
import { ofOneFile, type GatewayCommand } from '../agent-core/gateway/gateway.ts'
import { logToFile } from '../agent-core/observability/log-file.ts'
import { defaultStateDir } from '../agent-core/state/state-folder.ts'
import { messageOf } from '../agent-core/util/message-of.ts'
import type { AppVerb, VerbWork } from '../contract/app-bridge.ts'
import { cleanLines } from '../contract/clean-text.ts'
import { LinkError } from '../contract/client.ts'
import { sharedWords } from '../contract/words.ts'
import { onceCopied } from '../installation/command-copy.ts'
import { appLogIn } from './agent/start-settings.ts'
import { createAgentView, keepPreferences, keepShowing } from './agent/agent-view.ts'
import { appFindings, withAppFindings } from './system/app-doctor.ts'
import { installedApp } from './system/installed-app.ts'
import { KeptToken } from './system/kept-token.ts'
import { setByPerson } from './preferences.ts'
import { confirm, type Question, tellCannotStart } from './lifecycle/questions.ts'
import { exitAfterDefect, isSoonAfterDefect } from './lifecycle/defect.ts'
import { type GoodEnd, personQuits, stopBeforeQuit } from './lifecycle/quit.ts'
import { takeLoginEnvironment } from './system/login-environment.ts'
import { tellNews } from './notifications/tell-news.ts'
import { showAgent } from './agent/shown-agent.ts'
import {
  catchLinks,
  changePowerRuleHere,
  chooseFile,
  followSleep,
  followSupply,
  holdAwake,
  keychain,
  logHelperProcesses,
  loginItemState,
  measurePowerHere,
  openPane,
  type OwnPower,
  refuseAppNap,
  setLoginItem,
} from './system/macos.ts'
import { carryOut, menuActions, ownLog } from './tray/menu-actions.ts'
import type { MenuAction } from './tray/menu-entries.ts'
import { menuLists } from './tray/menu-lists.ts'
import { iconState, rescueHiddenIcon, showTray, tellHiddenIconOnce } from './tray/tray.ts'
import { appUninstall } from './lifecycle/uninstall.ts'
import { registerAppScheme, securePages, serveAppScheme } from './window/app-scheme.ts'
import { saveDownloads } from './window/downloads.ts'
import { serveIpc } from './window/ipc.ts'
import { Popover } from './window/popover.ts'
import { targetShower } from './window/show-target.ts'
import type { ServersAtEnd } from '../serve/host-agent.ts'
import { menuBarWords, menuWords, questionWords, windowWords } from './words.ts'

const { env, platform } = process
const built = import.meta.dirname
const homeDir = app.getPath('home')
const stateDir = defaultStateDir(platform, env, homeDir)
// Chromium's files stay out of the agent's, and two state folders are two apps.
const chromiumDir = path.join(stateDir, 'chromium')
mkdirSync(chromiumDir, { recursive: true, mode: 0o700 })
app.setPath('userData', chromiumDir)

if (app.requestSingleInstanceLock()) {
  app.enableSandbox()
  // A native crash takes the agent with it: what is left of it stays on this machine.
  crashReporter.start({ uploadToServer: false })
  registerAppScheme()
  // The app keeps running without a window: a person quits it from the icon.
  app.on('window-all-closed', () => undefined)
  const followLinks = catchLinks()
  // Never awaited here: Electron is ready only when this module has been evaluated.
  app
    .whenReady()
    .then(() => run(followLinks))
    .catch(cannotStart)
} else {
  // The first one shows its window.
  app.quit()
}

/** The command inside the installed app. */
const packedCommand = (): string => path.join(process.resourcesPath, 'bin/metal-agent')

/** The gateway outlives an update of the app, which replaces everything in it. */
function gatewayCommand(): GatewayCommand {
  const copy = onceCopied({ command: packedCommand(), stateDir })
  return async () => ofOneFile(await copy())
}

function run(followLinks: ReturnType<typeof catchLinks>): void {
  const onStderr = (text: string) => void process.stderr.write(text)
  const { log } = logToFile({ file: appLogIn(stateDir), level: 'info', onTrouble: onStderr, onLate: onStderr })
  let servers: ServersAtEnd = 'stop'
  const last: { goodEnd?: GoodEnd } = {}
  const onDefect = (error: unknown) => {
    const startsAgain = !isSoonAfterDefect(process.argv, Date.now())
    const then = startsAgain ? 'the app is started again' : 'the app ends, after two defects within a minute'
    log.error('defect', { error, text: `${then}; its servers keep running for the next one` })
    servers = 'keep'
    const exit = () => exitAfterDefect({ startsAgain })
    if (last.goodEnd === undefined) exit()
    else void last.goodEnd.endBy(exit)
  }
  const onSlip = (error: unknown) => log.error('what a person asked for failed', { error })
  process.on('uncaughtException', onDefect)
  process.on('unhandledRejection', onDefect)
  refuseAppNap()
  // Without an icon in the Dock, also where no bundle says so. There on macOS alone.
  if ('setActivationPolicy' in app) app.setActivationPolicy('accessory')
  securePages()
  saveDownloads(log)
  logHelperProcesses(log)
  const windowFolder = path.join(built, '../renderer')
  serveAppScheme(windowFolder)

  const view = createAgentView()
  const token = new KeptToken({ stateDir, cipher: keychain(platform), log })
  const environment = takeLoginEnvironment(env, log)
  const agent = showAgent({
    stateDir,
    platform,
    env,
    homeDir,
    temporaryDir: tmpdir(),
    windowFolder,
    log,
    isPrepared: environment,
    keptHubToken: () => token.read(),
    onShutdown: ({ keepServing }) => {
      servers = keepServing ? 'keep' : 'stop'
      app.quit()
    },
    onLogLevel: (level) => log.setLevel(level),
    holdAwake,
    ...(app.isPackaged && { gateway: { temporaryDir: tmpdir(), command: gatewayCommand() } }),
    onPreferences: (preferences) => view.setState({ preferences }),
    onHosting: (hosting) => view.setState(hosting),
  })
  const popover = new Popover({
    preload: path.join(built, 'preload.cjs'),
    log,
    icon: () => iconBounds(),
    onProblem: (pageProblem) => view.setState({ pageProblem }),
    mayLose: () => confirm(questionWords.losesWritten),
  })
  const prefer = keepPreferences(stateDir, view)
  const quit = personQuits({ view, prefer, hide: () => popover.hide() })
  const ask = (question: Question) => popover.during(() => confirm(question))
  const ownPower: OwnPower = {
    link: agent.link,
    own: app.isPackaged
      ? { program: packedCommand() }
      : { program: process.execPath, script: path.join(built, '../cli/metal-agent.js') },
    confirm: ask,
  }
  const onAction = (action: MenuAction) => void carryOut(menu, action).catch(onSlip)
  const installed = installedApp({
    log,
    stateDir,
    homeDir,
    shellPath: async () => (await environment).shellPath,
    view,
    confirm: ask,
    onAction,
    keepServers: (areKept) => {
      servers = areKept ? 'keep' : 'stop'
    },
    endBy: (finish) => goodEnd.endBy(finish),
  })
  showAppMenu({
    onSettings: () => popover.show({ view: 'settings' }),
    onUpdates: () => onAction(['update', 'look']),
    onQuit: () => {
      // A person who chose to keep it quits by the icon's menu, which says what it does.
      if (view.getState().preferences?.onQuit === 'keep') popover.hide()
      else void quit().catch(onSlip)
    },
  })
  keepShowing(agent.link, view)
  const loginItem = () => loginItemState(view.getState().misplaced)
  const refreshLists = menuLists(agent.link, view, async () => ({
    loginItem: loginItem(),
    commandLink: await installed.commandLink(),
  }))
  const iconBounds = showTray({
    imageFolder: path.join(built, '../../assets/tray'),
    view,
    log,
    onPress: () => popover.pressed(),
    onClick: (icon) => popover.toggle(icon),
    beforeMenu: refreshLists,
    onAction,
  })
  const removal = appUninstall({
    link: agent.link,
    view,
    log,
    stateDir,
    homeDir,
    env,
    platform,
    confirm: ask,
    endBy: (finish) => goodEnd.endBy(finish),
  })
  const ofApp: VerbWork<AppVerb> = {
    appState: async () => {
      const hubToken = await token.state()
      const commandLink = await installed.commandLink()
      const { preferences, isHere, update, lastUpdate, misplaced } = view.getState()
      return {
        hubToken,
        loginItem: loginItem(),
        preferences: preferences && setByPerson(preferences),
        isHere,
        isTornOff: popover.isTornOff,
        version: app.getVersion(),
        update,
        lastUpdate,
        commandLink,
        misplaced,
      }
    },
    // The keychain may ask for its password.
    setHubToken: (text) => popover.during(() => token.set(text)),
    removeHubToken: () => token.remove(),
    setLoginItem: (isOn) => setLoginItem(isOn, view.getState().misplaced),
    prefer,
    chooseFile: (what) => popover.during(() => chooseFile(what)),
    openPane,
    changePowerRule: (change) => changePowerRuleHere(ownPower, change),
    update: installed.update,
    setCommandLink: installed.setCommandLink,
    moveToApplications: installed.moveToApplications,
    ...removal,
    revealLog: async (asked) => {
      // A page names a run, never a file.
      const { file } = await agent.link.query({ name: 'log', ...asked, lines: 1 })
      if (file === undefined) throw new LinkError('refused', windowWords.noLog)
      shell.showItemInFolder(await ownLog(stateDir, file))
    },
    keep: (isKept) => popover.keep(isKept),
    hide: () => popover.escape(),
    tearOff: (at) => popover.tearOff(at),
    focus: (hasKeys) => popover.focused(hasKeys),
  }
  const menu = menuActions({
    agent,
    view,
    stateDir,
    ofApp,
    popover,
    measurePower: () => measurePowerHere(ownPower),
    copy: (text) => clipboard.writeText(text),
    openFile: (file) => shell.openPath(file),
    confirm: ask,
    quit,
  })
  serveIpc({
    link: withAppFindings(agent.link, () =>
      appFindings({ loginItem: loginItem(), isHere: view.getState().isHere, icon: iconState(iconBounds()) }),
    ),
    log,
    app: ofApp,
  })
  const goodEnd = stopBeforeQuit({
    log,
    onQuitting: () => view.setState({ isQuitting: true }),
    stop: () => agent.stop(servers),
    onStopped: () => popover.end(),
    cutDrains: () => agent.cutDrains(),
  })
  last.goodEnd = goodEnd
  const isAfterDefect = isSoonAfterDefect(process.argv, Date.now())
  const onWoke = tellNews({ view, log, prefer, onAction, isAfterDefect })
  followSleep({ log, onSleep: (isAsleep) => agent.sleeps(isAsleep), onWoke })
  followSupply({ log, onSupply: () => agent.supplyChanged() })
  followLinks({
    log,
    isPlaced: installed.isPlaced,
    onLink: targetShower(view, popover),
  })
  rescueHiddenIcon(iconBounds, () => {
    popover.tearOff().catch(onSlip)
    tellHiddenIconOnce({ view, log, prefer })
  })
  app.on('second-instance', () => popover.show())
  app.on('activate', () => popover.show())
}

function cannotStart(error: unknown): void {
  const why = messageOf(error)
  process.stderr.write(`${questionWords.cannotStart} ${cleanLines(why)}\n`)
  void tellCannotStart(why).finally(() => app.exit(1))
}

interface AppMenuOptions {
  readonly onSettings: () => void
  readonly onUpdates: () => void
  readonly onQuit: () => void
}

/** Seen only while the window has the focus; its keys are what a person expects of any window. */
const showAppMenu = (options: AppMenuOptions): void => Menu.setApplicationMenu(Menu.buildFromTemplate(appMenu(options)))

const appMenu = ({ onSettings, onUpdates, onQuit }: AppMenuOptions): MenuItemConstructorOptions[] => [
  {
    label: sharedWords.app,
    submenu: [
      { role: 'about' },
      { label: menuBarWords.checkForUpdates, click: onUpdates },
      { type: 'separator' },
      { label: menuWords.settings, accelerator: 'Command+,', click: onSettings },
      { type: 'separator' },
      { role: 'hide' },
      { role: 'hideOthers' },
      { role: 'unhide' },
      { type: 'separator' },
      { label: menuBarWords.quit, accelerator: 'Command+Q', click: onQuit },
    ],
  },
  { role: 'editMenu' },
  { label: menuBarWords.window, submenu: [{ role: 'close' }, { role: 'minimize' }] },
]
